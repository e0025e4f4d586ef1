// Renders the pages as GitHub does, although they are templates of Vue.
import { existsSync, statSync } from 'node:fs'
import path from 'node:path'
import { pages, rewrite, root } from './navigation.js'

export const repository = 'https://github.com/breakwater-k8s/breakwater'

// Returns the anchor that GitHub gives a heading. TestLinksOfPages checks anchors by the same rules.
function slugify(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '').replaceAll(' ', '-')
}

// Returns the link in the site for a link of a page: another page, or a file in the repository.
function resolve(page, link) {
  if (/^([a-z][a-z0-9+.-]*:|#|\/\/)/i.test(link)) {
    return link
  }
  const [, name, anchor] = link.match(/^([^#]*)(.*)$/)
  const target = path.posix.join(path.posix.dirname(page), decodeURI(name)).replace(/\/$/, '')
  if (pages.includes(target)) {
    return `/${rewrite(target)}${anchor}`
  }
  const file = path.join(root, target)
  if (!existsSync(file)) {
    throw new Error(`${page}: ${link}: no such file`)
  }
  return `${repository}/${statSync(file).isDirectory() ? 'tree' : 'blob'}/main/${target}${anchor}`
}

function visit(token, page) {
  if (token.type === 'link_open') {
    token.attrSet('href', resolve(page, token.attrGet('href')))
  }
  token.children = token.children?.filter((child) => !isComment(child)) ?? null
  token.children?.forEach((child) => visit(child, page))
}

// Comments hold directives for tests, which would appear in the search.
function isComment(token) {
  return token.type.startsWith('html_') && token.content.trimStart().startsWith('<!--')
}

function config(md) {
  // Before the anchors are added, whose links need no resolution.
  md.core.ruler.after('inline', 'tree', (state) => {
    const page = path.relative(root, state.env.realPath ?? state.env.path)
    state.tokens = state.tokens.filter((token) => !isComment(token))
    state.tokens.forEach((token) => visit(token, page))
  })
  // Vue interprets {{ }} in all text except in code blocks.
  for (const rule of ['text', 'code_inline']) {
    const render = md.renderer.rules[rule]
    md.renderer.rules[rule] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
  }
}

// GitHub knows no attributes in braces.
export const markdown = { config, anchor: { slugify }, attrs: { disable: true } }
