/**
 * The storage that a PayClient works on, and one in memory: for tests, and for a process that may forget. IndexedDBStore is the one for
 * browsers. A store promises that each method happens at once or not at all, as seen by every client on it; and that what a method has
 * answered is on disk.
 *
 * @typedef {import('./payment.js').Payment} Payment
 *
 * @typedef {object} Draft a form that was not sent yet
 * @property {string} user
 * @property {string} key made with the form
 * @property {object|null} fields what stands in it, if it is to be kept
 *
 * @typedef {object} Store
 * @property {(key: string) => Promise<Payment|undefined>} get
 * @property {(user: string) => Promise<Payment[]>} list oldest first
 * @property {(payment: Payment, isOpen: (p: Payment) => boolean) => Promise<{payment: Payment, found: ''|'key'|'open'}>} begin puts a
 *   payment, unless one of its key is there, or another open one of its user: then that one is given. The draft of its key goes with it.
 * @property {(key: string, change: (p: Payment) => Payment|undefined) => Promise<Payment|undefined>} change changes a payment, or leaves it
 *   where the function gives nothing, and gives the payment as it is after.
 * @property {(key: string) => Promise<void>} forget
 * @property {(user: string, mint: () => string) => Promise<Draft>} draft the draft of a user, made if there is none
 * @property {(draft: Draft) => Promise<boolean>} keepDraft keeps the fields of a draft, if its key still is the draft's
 * @property {(name: string, holder: string, now: number, term: number) => Promise<boolean>} lease takes or renews a lease
 * @property {(name: string, holder: string) => Promise<void>} release
 */

const copy = (value) => (value === undefined ? undefined : structuredClone(value));

/** @implements {Store} */
export class MemoryStore {
  #payments = new Map();
  #drafts = new Map();
  #leases = new Map();

  async get(key) {
    return copy(this.#payments.get(key));
  }

  async list(user) {
    return [...this.#payments.values()].filter((p) => p.user === user).map(copy);
  }

  async begin(payment, isOpen) {
    const same = this.#payments.get(payment.key);
    if (same) return { payment: copy(same), found: 'key' };
    const open = [...this.#payments.values()].find((p) => p.user === payment.user && isOpen(p));
    if (open) return { payment: copy(open), found: 'open' };
    this.#payments.set(payment.key, copy(payment));
    if (this.#drafts.get(payment.user)?.key === payment.key) this.#drafts.delete(payment.user);
    return { payment: copy(payment), found: '' };
  }

  async change(key, change) {
    const before = this.#payments.get(key);
    if (!before) return undefined;
    const after = change(copy(before));
    if (after) this.#payments.set(key, copy(after));
    return copy(after ?? before);
  }

  async forget(key) {
    this.#payments.delete(key);
  }

  async draft(user, mint) {
    if (!this.#drafts.has(user)) this.#drafts.set(user, { user, key: mint(), fields: null });
    return copy(this.#drafts.get(user));
  }

  async keepDraft(draft) {
    if (this.#drafts.get(draft.user)?.key !== draft.key) return false;
    this.#drafts.set(draft.user, copy(draft));
    return true;
  }

  async lease(name, holder, now, term) {
    const found = this.#leases.get(name);
    if (found && found.holder !== holder && found.until > now && found.until <= now + term) return false;
    this.#leases.set(name, { name, holder, until: now + term });
    return true;
  }

  async release(name, holder) {
    if (this.#leases.get(name)?.holder === holder) this.#leases.delete(name);
  }
}
