// The tasks that the page knows, newest first, and the choice of them that is shown.
import {percent, row, states} from './task.js'

export const most = 250_000 // tasks; older ones are not kept

const newestFirst = (a, b) => a.id < b.id ? 1 : a.id > b.id ? -1 : 0

// Store holds rows. It tells "change" when one is another one than before.
export class Store extends EventTarget {
  byID = new Map()
  #order = [] // newest first, but for those in #fresh
  #fresh = []
  #gone = 0 // in #order, and not in byID

  // put takes messages in, but for those that are older than what we have.
  put(...messages) {
    const heard = performance.now()
    for (const message of messages) this.#put({...row(message), heard})
    this.dispatchEvent(new Event('change'))
  }

  #put(next) {
    const known = this.byID.get(next.id)
    if (!known) {
      this.byID.set(next.id, next)
      this.#fresh.push(next)
    } else if (known.revision <= next.revision) {
      Object.assign(known, next)
    } else {
      known.heard = next.heard
    }
  }

  // drop forgets a task that the service has forgotten.
  drop(id) {
    if (!this.byID.delete(id)) return
    this.#gone++
    this.dispatchEvent(new Event('change'))
  }

  // order is all rows, newest first.
  get order() {
    if (this.#gone) {
      const stays = (t) => this.byID.get(t.id) === t
      this.#order = this.#order.filter(stays)
      this.#fresh = this.#fresh.filter(stays)
      this.#gone = 0
    }
    if (this.#fresh.length) this.#merge(this.#fresh.sort(newestFirst))
    return this.#order
  }

  // merge brings fresh rows to where they belong: most often before or behind all.
  #merge(fresh) {
    this.#fresh = []
    const known = this.#order
    if (!known.length || known.at(-1).id > fresh[0].id) for (const t of fresh) known.push(t)
    else if (fresh.at(-1).id > known[0].id) this.#order = fresh.concat(known)
    else this.#order = known.concat(fresh).sort(newestFirst)
    for (const t of this.#order.splice(most)) this.byID.delete(t.id)
  }

  // between returns the rows below an id, down to another one; no id is the end of all.
  between(above, last) {
    const order = this.order
    return order.slice(above ? below(order, above) : 0, last ? below(order, last) : undefined)
  }
}

// below is where the rows begin that are older than an id, of rows with the newest first.
function below(rows, id) {
  let from = 0
  for (let to = rows.length; from < to;) {
    const middle = (from + to) >> 1
    if (rows[middle].id < id) to = middle
    else from = middle + 1
  }
  return from
}

// counts says how many tasks are in each state.
export function counts(rows) {
  const found = Object.fromEntries(states.map((state) => [state, 0]))
  for (const t of rows) found[t.state]++
  return found
}

// values are the values of a field, in order, at most 500.
export function values(rows, field) {
  const found = new Set()
  for (const t of rows) if (t[field] && found.size < 500) found.add(t[field])
  return [...found].sort()
}

// The orders that a list can have, each by what it looks at: the greatest first.
const looksAt = {
  created: (t) => t.created,
  state: (t) => -states.indexOf(t.state),
  rate: (t) => t.rate,
  progress: (t) => percent(t) ?? -1,
  left: (t) => t.left || -1,
  what: (t) => t.source + t.target,
  owner: (t) => t.owner,
  project: (t) => t.project,
}

// choose returns the rows that a view asks for: {states, project, owner, text, by, up}.
export function choose(rows, view) {
  const chosen = rows.filter(filter(view))
  if ((view.by ?? 'created') === 'created') return view.up ? chosen.reverse() : chosen
  const value = new Map()
  for (const t of chosen) value.set(t, looksAt[view.by](t))
  const sign = view.up ? -1 : 1
  return chosen.sort((a, b) => {
    const x = value.get(a)
    const y = value.get(b)
    return x < y ? sign : x > y ? -sign : newestFirst(a, b)
  })
}

function filter({states, project, owner, text}) {
  const tests = []
  if (states?.size) tests.push((t) => states.has(t.state))
  if (project) tests.push((t) => t.project === project)
  if (owner) tests.push((t) => t.owner === owner)
  for (const part of (text ?? '').split(/\s+/).filter(Boolean)) {
    const found = new RegExp(part.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'iu')
    tests.push((t) => found.test(t.id) || found.test(t.source) || found.test(t.target) || found.test(t.dataset) ||
      found.test(t.owner) || found.test(t.project) || found.test(t.agent) || found.test(t.kind) || found.test(t.state) || found.test(t.error))
  }
  return (t) => tests.every((test) => test(t))
}
