// Elements. Text becomes text: nothing here, and nothing that uses it, makes HTML of
// a string, and the policy of the page would not let it.

// h makes an element. Attributes that begin with "on" are listeners.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children)
}

// s makes an element of a drawing.
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children)
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value)
    else put(node, name, value)
  }
  node.append(...children)
  return node
}

// put sets an attribute, if it is another one; null and false remove it.
export function put(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name)
  else if (node.getAttribute(name) !== String(value === true ? '' : value)) node.setAttribute(name, value === true ? '' : value)
}

// say sets the text of an element, if it is another one: what has not changed stays
// selected.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text
}

// show shows an element, or hides it.
export function show(node, shown) {
  if (node.hidden === Boolean(shown)) node.hidden = !shown
}

// keyed makes the children of a node those of items, in their order: one element for
// each key, made once and told of every change.
export function keyed(node, items, key, make, tell) {
  node.elements ??= new Map()
  const old = node.elements
  node.elements = new Map()
  let at = node.firstElementChild
  for (const item of items) {
    const k = key(item)
    if (node.elements.has(k)) continue
    const child = old.get(k) ?? make(item)
    old.delete(k)
    node.elements.set(k, child)
    tell?.(child, item)
    if (child === at) at = at.nextElementSibling
    else node.insertBefore(child, at)
  }
  for (const child of old.values()) child.remove()
}

// facts makes a list of terms, of those that have a text; more than one text is
// given as a list.
export function facts(node, rows) {
  keyed(node, rows.filter(([, text]) => text), ([term]) => term,
    ([term]) => h('div', {}, h('dt', {}, term), h('dd')), (div, [, text]) => say(div.lastChild, text))
}

// later calls f soon, and once for all that asked until then: with the next frame,
// and not before ms have passed since the last one.
export function later(f, ms = 0) {
  let asked = false
  let last = -Infinity
  const run = () => { asked = false; last = performance.now(); f() }
  return () => {
    if (asked) return
    asked = true
    const wait = last + ms - performance.now()
    if (wait > 0) setTimeout(() => requestAnimationFrame(run), wait)
    else requestAnimationFrame(run)
  }
}
