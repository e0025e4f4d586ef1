// The documentation site: the Markdown files of the tree, in the order of navigation.yaml. Run it with make site.
import { withMermaid } from 'vitepress-plugin-mermaid'
import { markdown, repository } from './markdown.js'
import { git, rewrite, root, sidebar } from './navigation.js'

// The pages are outside of this folder, so Node cannot find Vue from them.
const vueOfThisFolder = {
  name: 'vue-of-this-folder',
  enforce: 'pre',
  resolveId: (id, _, { ssr }) => (ssr && /^vue(\/server-renderer)?$/.test(id) ? { id, external: true } : null)
}

// The README is the home page, below these links.
const home = {
  layout: 'home',
  hero: {
    name: 'Breakwater',
    text: 'Services that survive deletion storms',
    tagline: 'A minimum number of pods stays available over all clusters, whatever removes them.',
    actions: [
      { theme: 'brand', text: 'Quickstart', link: '/docs/tutorials/quickstart' },
      { theme: 'alt', text: 'Install', link: '/docs/how-to/install' },
      { theme: 'alt', text: 'An alert fired', link: '/docs/runbooks/' }
    ]
  }
}

export default withMermaid({
  title: 'Breakwater',
  description: 'Keeps a minimum number of pods available over all clusters',
  srcDir: root,
  srcExclude: ['**/testdata/**', 'site/**', '*-report/**'],
  outDir: `${root}/site`,
  cacheDir: 'node_modules/.vitepress',
  rewrites: rewrite,
  markdown,
  transformPageData: (page) => (page.relativePath === 'index.md' ? { frontmatter: { ...page.frontmatter, ...home } } : undefined),
  mermaid: { securityLevel: 'strict' },
  vite: { plugins: [vueOfThisFolder], build: { chunkSizeWarningLimit: 2000 } },
  themeConfig: {
    sidebar,
    outline: [2, 3],
    // A title that matches comes before any text.
    search: { provider: 'local', options: { miniSearch: { searchOptions: { boost: { title: 100, titles: 10, text: 1 } } } } },
    editLink: { pattern: `${repository}/edit/main/:path` },
    socialLinks: [{ icon: 'github', link: repository }],
    nav: [
      { text: 'Tutorials', link: '/docs/tutorials/' },
      { text: 'How-to guides', link: '/docs/how-to/' },
      { text: 'Runbooks', link: '/docs/runbooks/' },
      { text: 'Reference', link: '/docs/reference/' },
      {
        // A menu of documentation by version needs a host that keeps the sites of earlier releases, which the project does not have.
        text: git('describe', '--tags', '--match', 'v*', '--always'),
        items: [
          { text: 'Changelog', link: '/CHANGELOG' },
          { text: 'Other releases', link: `${repository}/releases` }
        ]
      }
    ]
  }
})
