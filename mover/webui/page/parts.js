// Small parts that several views are made of.
import {h, later, put, say, show} from './dom.js'

// pill shows a state as a word in its colour.
export const pill = () => h('span', {class: 'pill'})
export function tellPill(node, state) {
  say(node, state || '–')
  put(node, 'data-state', state)
}

// bar shows how much of something is done or full, in parts of a whole.
export const bar = (...names) => h('span', {class: 'bar'}, ...names.map((name) => h('span', {class: name})))
export function tellBar(node, ...shares) {
  shares.forEach((share, i) => {
    const width = `${(Math.min(Math.max(share || 0, 0), 1) * 100).toFixed(2)}%`
    if (node.children[i].style.width !== width) node.children[i].style.width = width
  })
}

// field is a figure with its name.
export function field(name, id) {
  return h('div', {class: 'field'}, h('span', {class: 'name'}, name), h('span', {class: 'value', id}))
}

// section is a titled part of a view, hidden while it has nothing to say.
export function section(title, ...children) {
  return h('section', {hidden: true}, h('h3', {}, title), ...children)
}

// table makes a table; cells know the title of their column, which is shown where
// there is no room for a table.
export function table(columns, ...classes) {
  const body = h('tbody')
  const node = h('table', {class: classes.join(' ') || null},
    h('thead', {}, h('tr', {}, ...columns.map((c) => h('th', {scope: 'col'}, c)))), body)
  return {node, body, line: () => h('tr', {}, ...columns.map((c) => h('td', {'data-column': c})))}
}

// cells sets the texts of the cells of a line.
export function cells(line, texts) {
  texts.forEach((text, i) => say(line.children[i], text))
}

// note is a sentence that stands where something is missing; '' hides it.
export const note = (role) => h('p', {class: 'note', role, hidden: true})
export function tellNote(node, text) {
  say(node, text)
  show(node, text)
}

// search is a field for text that is looked for; wanted is called soon after it changed.
export function search(label, wanted) {
  const node = h('input', {type: 'search', placeholder: 'Search  ( / )', 'aria-label': label, spellcheck: 'false', autocomplete: 'off',
    maxlength: 200, oninput: later(() => wanted(node.value), 100)})
  return node
}

// tellSearch shows the text that a query looks for, and returns it.
export function tellSearch(node, query) {
  const text = (query.get('text') ?? '').slice(0, 200)
  if (node.value !== text) node.value = text
  return text
}
