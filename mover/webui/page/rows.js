// A list of any length of which only the rows on the screen are elements.
import {h, later, put} from './dom.js'

const around = 6 // rows above and below the screen

// Rows shows items, each with a row of one height, which is that of --row. make returns
// an element, tell writes an item into it; open is called with an item that is chosen.
export class Rows {
  items = []
  #elements = [] // that stand for one index after the other, round and round
  #first = 0
  #last = 0
  #active // key of the item that the keyboard is at

  constructor(node, {key, make, tell, open, moved}) {
    Object.assign(this, {node, key, make, tell, open, moved})
    this.inner = h('div', {class: 'inner', role: 'presentation'})
    node.append(this.inner)
    const draw = later(() => this.draw())
    node.addEventListener('scroll', draw, {passive: true})
    node.addEventListener('keydown', (e) => this.#onKey(e))
    node.addEventListener('click', (e) => this.#onClick(e))
    new ResizeObserver(draw).observe(node)
  }

  // set shows other items. If stay is set, what is at the top of the screen stays there,
  // unless that is the first item: then what is new is seen.
  set(items, stay) {
    const top = stay && this.node.scrollTop > 0 ? this.items[Math.floor(this.node.scrollTop / this.#height)] : undefined
    const before = top && this.items.indexOf(top)
    this.items = items
    if (top) {
      const after = items.indexOf(top)
      if (after >= 0 && after !== before) this.node.scrollTop += (after - before) * this.#height
    }
    this.draw()
  }

  // visible are the items on the screen.
  get visible() {
    const first = Math.floor(this.node.scrollTop / this.#height)
    return this.items.slice(first, Math.ceil((this.node.scrollTop + this.node.clientHeight) / this.#height))
  }

  get #height() { return parseFloat(getComputedStyle(this.node).getPropertyValue('--row')) || 36 }

  // draw writes the rows that are on the screen now.
  draw() {
    const {clientHeight, scrollTop} = this.node
    const height = this.#height
    this.inner.style.height = `${this.items.length * height}px`
    this.#first = Math.max(0, Math.floor(scrollTop / height) - around)
    this.#last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / height) + around)
    const count = Math.ceil(clientHeight / height) + 2 * around + 1
    while (this.#elements.length < count) this.#elements.push(this.#add())
    while (this.#elements.length > count) this.#elements.pop().remove()
    for (const element of this.#elements) element.hidden = true
    for (let i = this.#first; i < this.#last; i++) this.#put(this.#elements[i % count], i, height)
    put(this.node, 'aria-rowcount', this.items.length)
    this.moved?.()
  }

  #add() {
    const element = this.make()
    this.inner.append(element)
    return element
  }

  #put(element, i, height) {
    const item = this.items[i]
    const key = this.key(item)
    element.hidden = false
    element.item = item
    element.style.transform = `translateY(${i * height}px)`
    put(element, 'id', 'row-' + key)
    put(element, 'aria-rowindex', i + 1)
    element.classList.toggle('active', key === this.#active)
    this.tell(element, item)
  }

  // activate has the keyboard at an item, and shows it.
  activate(key) {
    this.#active = key
    put(this.node, 'aria-activedescendant', key ? 'row-' + key : null)
    this.draw()
  }

  #onKey(event) {
    const page = Math.max(1, Math.floor(this.node.clientHeight / this.#height) - 1)
    const at = this.items.findIndex((item) => this.key(item) === this.#active)
    const to = {ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.items.length - 1}[event.key]
    if (event.key === 'Enter' && at >= 0) this.open(this.items[at])
    if (to === undefined || !this.items.length) return
    event.preventDefault()
    this.#show(Math.min(Math.max(to, 0), this.items.length - 1))
  }

  #show(i) {
    const top = i * this.#height
    const bottom = top + this.#height - this.node.clientHeight
    if (this.node.scrollTop > top) this.node.scrollTop = top
    else if (this.node.scrollTop < bottom) this.node.scrollTop = bottom
    this.activate(this.key(this.items[i]))
  }

  #onClick(event) {
    const element = event.target.closest('.row')
    if (!element?.item || event.target.closest('a, button') || getSelection()?.type === 'Range') return
    this.open(element.item)
  }
}
