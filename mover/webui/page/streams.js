// Streams follow tasks as they change: the one that is open, and running ones on the
// screen as far as there are connections. The rounds of the feed tell about the rest.
import {watch} from './api.js'

// Over HTTP/1.1 a browser has six connections to us, and all its windows share them:
// they have so many streams together that requests still get through. A stream of
// HTTP/2 costs no connection.
const shared = performance.getEntriesByType('navigation')[0]?.nextHopProtocol !== 'h2'
const most = shared ? 3 : 24
const deafFor = 5000 // milliseconds after which a stream that ended is opened again

// slot takes one of the streams that windows share, and returns what gives it back;
// undefined when there is none left.
async function slot() {
  if (!shared) return () => {}
  for (let i = 0; i < most; i++) {
    const free = await new Promise((resolve) => {
      const hold = (lock) => lock ? new Promise((release) => resolve(release)) : resolve()
      navigator.locks?.request(`stream ${i}`, {ifAvailable: true}, hold) ?? resolve()
    })
    if (free) return free
  }
}

// Streams calls heard with every message.
export class Streams {
  #open = new Map() // close, by id
  #deaf = new Map() // until when, by id

  constructor(heard) { this.heard = heard }

  // follow follows these ids and no others, the first ones before the rest.
  follow(ids) {
    const may = (id) => !(this.#deaf.get(id) > performance.now())
    const chosen = new Set(ids.filter(may).slice(0, most))
    for (const [id, close] of this.#open) {
      if (!chosen.has(id)) close()
    }
    for (const id of chosen) {
      if (!this.#open.has(id)) this.#start(id)
    }
  }

  async #start(id) {
    let stop = () => {}
    const close = () => {
      if (this.#open.get(id) !== close) return
      this.#open.delete(id)
      stop()
    }
    this.#open.set(id, close)
    const release = await slot()
    if (!release || this.#open.get(id) !== close) {
      release?.()
      return this.#over(id, close)
    }
    const end = watch(id, this.heard, () => this.#over(id, close))
    stop = () => { end(); release() }
  }

  #over(id, close) {
    close()
    if (this.#deaf.size >= 1000) this.#deaf.clear()
    this.#deaf.set(id, performance.now() + deafFor)
  }
}
