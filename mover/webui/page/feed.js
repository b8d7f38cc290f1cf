// The feed asks the service and keeps what it answered: tasks in a store, the rest as
// it came, and rates over time. While the service is away it keeps what there was, and
// asks until it is back.
import {all, Away, get, now} from './api.js'
import {Histories, History} from './history.js'
import {Reader} from './reader.js'
import {Store} from './store.js'
import {Streams} from './streams.js'
import {hasEnded} from './task.js'

const every = 2000 // milliseconds from one round to the next
const whenHidden = 15_000
const slowly = 10_000 // for what changes slowly
const tenMinutes = 600_000
const whole = ['tiers', 'policies', 'runs', 'scans'] // lists without pages
const most = {agents: 10_000, datasets: 10_000, replicas: 50_000, leases: 50_000, pins: 50_000}

// Feed tells "change" when it has heard something, and "task" when it has heard of the
// task that is open, with the message.
export class Feed extends EventTarget {
  store = new Store()
  reader = new Reader(this.store)
  rates = {all: new History(), tasks: new Histories(300), agents: new Histories(1000)}
  info = {}
  lists = {} // {items, whole} of agents, tiers, datasets, replicas, leases, pins, policies, runs, scans
  refusals = new Map() // why something is not told to us, by what it is
  away = 0 // since when the service is away; 0 while it is there
  why = '' // it is away
  heard = 0 // when it answered last

  #streams = new Streams((m) => this.#heardOf(m))
  #open = '' // id of the task that is open
  #asked = {} // when, by name of a list
  #wake = () => {}

  // start asks until the page is closed.
  async start() {
    document.addEventListener('visibilitychange', () => this.hurry())
    for (;;) {
      const began = performance.now()
      const after = await this.#round()
      this.look()
      this.dispatchEvent(new Event('change'))
      await this.#sleep(Math.max(after, 100, (document.hidden ? whenHidden : every) - (performance.now() - began)))
    }
  }

  // hurry begins the next round at once.
  hurry() { this.#wake() }

  #sleep(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => { clearTimeout(timer); resolve() }
    })
  }

  // open has one task told as it changes; '' is none.
  open(id) {
    this.#open = id
    this.look()
  }

  // look follows what is to be seen now.
  look() {
    const state = (id) => this.store.byID.get(id)?.state ?? ''
    const open = this.#open && !hasEnded(state(this.#open)) ? [this.#open] : []
    const running = this.reader.visible().filter((id) => state(id) === 'running')
    this.#streams.follow(this.away || document.hidden ? [] : [...open, ...running])
  }

  #heardOf(m) {
    this.store.put(m)
    this.rates.tasks.of(m.id).add(Date.now(), this.store.byID.get(m.id)?.rate ?? 0)
    if (m.id === this.#open) this.dispatchEvent(new MessageEvent('task', {data: m}))
  }

  // round asks for everything once. It returns the milliseconds that the service wants
  // us to wait.
  async #round() {
    try {
      const since = this.heard && !this.away ? {} : {historySince: new Date(now() - tenMinutes).toISOString()}
      this.info = await get('/info', since)
      this.#remember(this.info.history ?? [])
      this.#back()
      await Promise.all([this.#askAgents(), this.#askTasks()])
    } catch (e) {
      if (e instanceof Away) this.#gone(e.message)
      else this.#refused('everything', e)
      return (e.after ?? 0) * 1000
    }
    return 0
  }

  // remember takes in how fast all tasks were while we did not ask.
  #remember(moments) {
    const ahead = now() - Date.now()
    for (const m of moments) this.rates.all.add(Date.parse(m.time) - ahead, Number(m.bytesPerSecond ?? 0))
  }

  #back() {
    this.heard = Date.now()
    this.refusals.delete('everything')
    if (!this.away) return
    this.away = 0
    this.#asked = {}
    this.reader.again()
  }

  #gone(why) {
    this.why = why
    this.away ||= Date.now()
    this.rates.all.add(Date.now(), NaN)
    this.rates.tasks.cut(Date.now())
    this.rates.agents.cut(Date.now())
  }

  #askAgents() {
    return this.#tell('agents', async () => {
      await this.#ask('agents')
      const {items} = this.lists.agents
      for (const a of items.slice(0, 1000)) this.rates.agents.of(a.name).add(Date.now(), Number(a.bytesPerSecond ?? 0))
    })
  }

  #askTasks() {
    return this.#tell('tasks', async () => {
      await this.reader.round()
      const {rows} = this.reader.running
      this.rates.all.add(Date.now(), this.rate)
      for (const t of rows.slice(0, 200)) this.rates.tasks.of(t.id).add(Date.now(), t.rate)
    })
  }

  // readOnly is whether we are the viewer, who may change nothing: no account has that uid.
  get readOnly() { return this.info.caller?.uid === 2 ** 32 - 1 }

  // rate is the sum of the rates of all running tasks, as the service has it.
  get rate() { return Number(this.info.bytesPerSecond ?? 0) }

  async #ask(name) {
    if (whole.includes(name)) this.lists[name] = {items: (await get('/' + name))[name] ?? [], whole: true}
    else this.lists[name] = await all('/' + name, name, {}, most[name])
  }

  // slowly asks for lists that a view shows, when it is time to.
  async slowly(...names) {
    const due = names.filter((name) => !this.away && !(performance.now() - this.#asked[name] < slowly))
    for (const name of due) this.#asked[name] = performance.now()
    try {
      await Promise.all(due.map((name) => this.#tell(name, () => this.#ask(name))))
    } catch {
      for (const name of due) delete this.#asked[name] // the next round tells why
    }
    if (due.length) this.dispatchEvent(new Event('change'))
  }

  // again asks for lists at once, after something was done that changes them.
  again(...names) {
    for (const name of names) delete this.#asked[name]
    return this.slowly(...names)
  }

  // tell does f, and notes it if the service does not want to.
  async #tell(what, f) {
    try {
      await f()
      this.refusals.delete(what)
    } catch (e) {
      if (e instanceof Away || e.after) throw e
      this.#refused(what, e)
    }
  }

  #refused(what, e) {
    if (!e.status) console.error(e) // a mistake of ours
    this.refusals.set(what, e.message)
  }
}
