// Reads navigation.yaml. It throws if a page of the tree is in no group, or if a page in a group does not exist.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parse } from 'yaml'

export const root = path.resolve(import.meta.dirname, '../../..')

export function git(...args) {
  return execFileSync('git', ['-C', root, ...args], { encoding: 'utf8' }).trim()
}

// Returns the pages that match a pattern and that git does not ignore, sorted by name.
function list(...patterns) {
  const output = git('-c', 'core.quotePath=off', 'ls-files', '--cached', '--others', '--exclude-standard', '--', ...patterns)
  return [...new Set(output.split('\n'))].filter((page) => page && existsSync(path.join(root, page))).sort()
}

// Returns the path of a page in the site: README.md is the index of its folder.
export function rewrite(page) {
  return page.replace(/(^|\/)README\.md$/, '$1index.md')
}

// Returns the title of a page for the sidebar, without the common prefix of all alert names.
function title(page) {
  const source = readFileSync(path.join(root, page), 'utf8').replace(/^---\n.*?\n---\n/s, '')
  const heading = source.match(/^# (.+)$/m)?.[1] ?? path.basename(page, '.md')
  const text = heading.replace(/[`*\\]/g, '').replace(/^Breakwater(?=[A-Z])/, '')
  return page.startsWith('charts/') ? `Chart ${text}` : text
}

const groups = parse(readFileSync(path.join(root, 'hack/site/navigation.yaml'), 'utf8'))
const isPattern = (name) => name.includes('*')
const namedIn = (group) => [...group.pages.filter((name) => !isPattern(name)), ...(group.groups ?? []).flatMap(namedIn)]
const named = groups.flatMap(namedIn)
const seen = new Set(named)

// The pages of the tree, and those that make references has written, which git ignores.
const generated = named.filter((page) => existsSync(path.join(root, page)))
export const pages = [...new Set([...list(':(glob)**/*.md', ':(exclude,glob).*/**', ':(exclude,glob)**/testdata/**'), ...generated])]

// Returns a group of the sidebar. A page belongs to the group that names it, or else to the first group with a matching pattern.
function sidebarOf({ title: text, fold, pages: names, groups: inner }, depth = 0) {
  const own = names.flatMap((name) => (isPattern(name) ? list(`:(glob)${name}`).filter((page) => !seen.has(page)) : [name]))
  own.forEach((page) => seen.add(page))
  const items = own.filter((page) => pages.includes(page)).map((page) => ({ text: title(page), link: `/${rewrite(page)}` }))
  return { text, collapsed: fold ?? depth > 0, items: [...items, ...(inner ?? []).map((group) => sidebarOf(group, depth + 1))] }
}

export const sidebar = groups.map((group) => sidebarOf(group))

const problems = [
  ...named.filter((page) => !pages.includes(page)).map((page) => `${page} does not exist`),
  ...named.filter((page, i) => named.indexOf(page) !== i).map((page) => `${page} is named twice`),
  ...pages.filter((page) => !seen.has(page)).map((page) => `${page} is in no group`)
]
if (problems.length > 0) {
  throw new Error(`hack/site/navigation.yaml:\n${problems.join('\n')}`)
}
