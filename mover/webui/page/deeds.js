// What can be asked of a task: pause, resume, cancel. A button is there when the state
// of the task allows it and the service has not said that we may not.
import {post} from './api.js'
import {h, say, show} from './dom.js'
import {note, tellNote} from './parts.js'
import {may, what} from './task.js'
import {sentence} from './text.js'

const titles = {pause: 'Pause', resume: 'Resume', cancel: 'Cancel …'}

// Deeds is the row of buttons. done is called with the task that the service answers.
export class Deeds {
  #denied = new Set() // "deed id" that the service has refused for good
  #busy = false

  constructor(done) {
    this.done = done
    this.buttons = Object.keys(titles).map((deed) => h('button', {
      type: 'button', class: deed, 'data-deed': deed, onclick: () => deed === 'cancel' ? this.#doubt() : this.#do(deed),
    }, titles[deed]))
    this.note = note('alert')
    this.asked = h('p')
    this.doubt = h('dialog', {'aria-label': 'Cancel this task?'},
      h('h3', {}, 'Cancel this task?'), this.asked,
      h('p', {}, 'What is published stays; what is not, goes. A cancelled task can not be resumed.'),
      h('p', {class: 'choice'},
        h('button', {type: 'button', autofocus: true, onclick: () => this.doubt.close()}, 'Keep it'),
        h('button', {type: 'button', class: 'bad', 'data-deed': 'surely', onclick: () => this.#surely()}, 'Cancel the task')))
    this.node = h('div', {class: 'deeds'}, ...this.buttons, this.doubt)
  }

  // tell shows what can be asked of a task.
  tell(t, {away, readOnly}) {
    this.link = {away, readOnly}
    if (this.task?.id !== t.id) {
      tellNote(this.note, '')
      if (this.doubt.open) this.doubt.close()
    }
    this.task = t
    for (const button of this.buttons) {
      const {deed} = button.dataset
      show(button, !readOnly && may[deed](t) && !this.#denied.has(`${deed} ${t.id}`))
      button.disabled = Boolean(away) || this.#busy
    }
  }

  #doubt() {
    say(this.asked, what(this.task).join(' → '))
    this.doubt.showModal()
  }

  // An event of the dialog's end may come when it is open again, with another decision.
  #surely() {
    this.doubt.close()
    this.#do('cancel')
  }

  async #do(deed) {
    const {id} = this.task
    this.#busy = true
    this.tell(this.task, this.link)
    let why = ''
    try {
      this.done(await post(`/tasks/${id}:${deed}`))
    } catch (e) {
      why = `${deed}: ${sentence(e.message)}`
      if (e.kind === 'PERMISSION') this.#denied.add(`${deed} ${id}`)
    }
    this.#busy = false
    this.tell(this.task, this.link)
    if (this.task.id === id) tellNote(this.note, why)
  }
}
