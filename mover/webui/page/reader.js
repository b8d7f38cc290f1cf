// The reader keeps a store as the service has its tasks. It reads the whole list once,
// page by page; after that each round asks for what is new and what runs, looks after
// tasks that are on the screen, and reads one page again.
import {all, Away, get} from './api.js'
import {most} from './store.js'
import {hasEnded} from './task.js'

const runningMost = 5000
const screenful = 100 // tasks, that come first: somebody waits for them
const askedByName = 8 // tasks in one round

// Reader reads for one store.
export class Reader {
  visible = () => [] // ids of the tasks on the screen
  loaded = 0 // tasks that came with the reading of the list that is under way
  whole = false // it has come to its end
  cut = false // there are older tasks, which are not kept
  running = {rows: [], whole: true} // as they were told in the last round
  #next = '' // page token
  #above = '' // id of the last task of the page before
  #asked // for the page that is next, if it is on its way
  #turn = 0 // of reading the list from its beginning
  #loading

  constructor(store) { this.store = store }

  // again has the list read again, because much may have changed.
  again() {
    Object.assign(this, {whole: false, loaded: 0})
    this.#next = ''
    this.#above = ''
    this.#asked = undefined
    this.#turn++
  }

  // round asks for what may have changed.
  async round() {
    if (!this.whole) this.#loading ??= this.#load()
    await this.#askNew()
    const began = performance.now()
    const {items, whole} = await all('/tasks', 'tasks', {states: 'TASK_STATE_RUNNING', brief: true}, runningMost)
    this.store.put(...items)
    this.running = {rows: items.map((m) => this.store.byID.get(m.id)).filter(Boolean), whole}
    await Promise.all(this.#doubtful(began, whole).map(({id}) => this.#askFor(id)))
    if (this.whole) await this.#page()
  }

  // askNew asks for the newest tasks, until we know one.
  async #askNew() {
    if (!this.store.byID.size) return // the list tells
    for (let token = ''; ;) {
      const {tasks = [], nextPageToken} = await get('/tasks', {brief: true, pageSize: token ? 1000 : 100, ...token && {pageToken: token}})
      const known = tasks.some((m) => this.store.byID.has(m.id))
      this.store.put(...tasks)
      if (known || !nextPageToken || nextPageToken === token) return
      token = nextPageToken
    }
  }

  // doubtful are tasks that may have changed and that this round has not told about:
  // those that ran and are not among the running ones any more, and those on the screen.
  #doubtful(began, whole) {
    const old = (t) => t && !hasEnded(t.state) && t.heard < began
    const stopped = whole ? this.store.order.filter((t) => t.state === 'running' && old(t)) : []
    const seen = this.visible().map((id) => this.store.byID.get(id)).filter(old).sort((a, b) => a.heard - b.heard)
    return [...new Set([...stopped.slice(0, askedByName - 2), ...seen])].slice(0, askedByName)
  }

  async #askFor(id) {
    try {
      this.store.put(await get('/tasks/' + id))
    } catch (e) {
      if (e.status !== 404) throw e
      this.store.drop(id)
    }
  }

  // load reads the whole list, beside the rounds. What keeps it from that, the next
  // round will tell; it goes on where it was.
  async #load() {
    try {
      for (let turn; turn !== this.#turn || this.#next;) {
        turn = this.#turn
        await this.#page(true)
      }
      this.whole = true
    } catch (e) {
      if (!(e instanceof Away || e.after)) this.again() // the page token may be the reason
    }
    this.#loading = undefined
  }

  // page reads the page that is next, and forgets what should be on it and is not. Such
  // pages follow each other for ever, so nothing stays wrong for longer than a turn. While
  // many are read, the one that follows is on its way before this one is taken in.
  async #page(many = false) {
    const {began, turn, answer} = this.#asked ?? this.#askPage()
    this.#asked = undefined
    const {tasks = [], nextPageToken = ''} = await answer
    if (turn !== this.#turn) return // the list is read again
    const above = this.#above
    const last = tasks.at(-1)?.id ?? ''
    this.loaded += tasks.length
    this.cut = Boolean(nextPageToken) && this.loaded >= most
    const over = !nextPageToken || nextPageToken === this.#next || this.cut
    this.#next = over ? '' : nextPageToken
    this.#above = over ? '' : last
    if (many && !over) this.#asked = this.#askPage()
    this.store.put(...tasks)
    for (const t of this.store.between(above, nextPageToken && last)) {
      if (t.heard < began) this.store.drop(t.id)
    }
    if (over && this.whole) this.loaded = 0
  }

  #askPage() {
    const began = performance.now()
    const answer = get('/tasks', {brief: true, pageSize: this.#next ? 1000 : screenful, ...this.#next && {pageToken: this.#next}})
    answer.catch(() => {}) // who waits for it hears of it
    return {began, turn: this.#turn, answer}
  }
}
