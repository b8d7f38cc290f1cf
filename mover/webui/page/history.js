// What a figure was over the last minutes: a ring of samples.

const size = 400 // samples
const apart = 900 // milliseconds that two samples are apart at least; of more the last counts

// History holds the last samples of one figure.
export class History {
  #times = new Float64Array(size)
  #values = new Float64Array(size)
  #n = 0 // samples that ever came

  // add takes a sample in. NaN says that there is none: what is drawn has a gap.
  add(time, value) {
    const last = (this.#n - 1) % size
    if (this.#n && time <= this.#times[last]) return
    const before = this.#n > 1 ? this.#times[(this.#n - 2) % size] : -Infinity
    if (this.#n && time - before < apart && !Number.isNaN(this.#values[last]) && !Number.isNaN(value)) this.#n--
    this.#times[this.#n % size] = time
    this.#values[this.#n % size] = value
    this.#n++
  }

  // since returns the samples from a moment on: [time, value].
  since(time) {
    const found = []
    for (let i = Math.max(0, this.#n - size); i < this.#n; i++) {
      if (this.#times[i % size] >= time) found.push([this.#times[i % size], this.#values[i % size]])
    }
    return found
  }
}

// Histories keeps the histories of what was used last.
export class Histories {
  #of = new Map() // the least recently used first

  constructor(most) { this.most = most }

  of(key) {
    const known = this.#of.get(key) ?? new History()
    this.#of.delete(key)
    this.#of.set(key, known)
    if (this.#of.size > this.most) this.#of.delete(this.#of.keys().next().value)
    return known
  }

  // cut makes a gap in all.
  cut(time) {
    for (const one of this.#of.values()) one.add(time, NaN)
  }
}
