import { newKey } from './key.js';
import {
  State, beginTry, due, endLookUp, endTry, freed, held, hurried, isDriven, isFinal, isOpen, isSameRequest, isUndecided, mended, newPayment,
} from './payment.js';
import { leaseLocks, webLocks } from './locks.js';

/**
 * @typedef {import('./payment.js').Payment} Payment
 *
 * @typedef {object} Clock
 * @property {() => number} now in milliseconds; it may jump
 * @property {() => number} since what has passed since some moment, in milliseconds; it never jumps
 * @property {(f: () => void, ms: number) => any} setTimeout
 * @property {(id: any) => void} clearTimeout
 *
 * @typedef {object} Options
 * @property {import('./memory-store.js').Store} store where payments are kept
 * @property {(user: string) => string|null|Promise<string|null>} token the bearer token of a user, asked for before each try and kept
 *   nowhere; null is that the user has to sign in, and an error passes
 * @property {typeof fetch} [fetch]
 * @property {string} [base] what comes before the path, such as https://pay.example; the page's own origin by default
 * @property {(payment: Payment) => {headers?: Record<string, string>, label?: string}} [extra] what a try has beside: headers, and a word for
 *   the log
 * @property {() => boolean} [online] false keeps tries back; wake tells when it may have changed
 * @property {import('./locks.js').Locks} [locks]
 * @property {import('./channel.js').Channel|null} [channel]
 * @property {Clock} [clock]
 * @property {() => number} [random]
 * @property {number} [timeout] how long one try may take; more than the server's own patience of 45 s
 * @property {number} [poll] how often to look whether another tab has changed something, where there is no channel
 */

/** KeyTaken says that a payment of another content has this key: a form that was sent already. */
export class KeyTaken extends Error {
  /** @param {Payment} payment */
  constructor(payment) {
    super('a payment of other content has this key');
    this.name = 'KeyTaken';
    this.payment = payment;
  }
}

/** NotAllowed says that a payment is not in a state for what was asked. */
export class NotAllowed extends Error {
  constructor(message) {
    super(message);
    this.name = 'NotAllowed';
  }
}

/** How long to stay away from a network that says it is off, and from a store that fails. */
const OFFLINE_PAUSE = 5_000;
/** A sleep is looked at again from time to time: a clock that was set changes how long it is. */
const LONGEST_SLEEP = 30_000;

/**
 * Run is one client's time with a payment, from when it takes it up: what has passed since is measured by what never jumps. It tries at once,
 * because a person has come back, or another tab has died.
 */
class Run {
  tries = 0;
  #clock;
  #base = null;
  #start;
  #due = null;

  /** @param {Clock} clock */
  constructor(clock) {
    this.#clock = clock;
    this.#start = clock.since();
  }

  /**
   * takeUp looks at how late it is. What has passed while nobody had the payment only the wall clock knows, if it was not set back. Each start
   * counts for a second, so that even then no number of them goes on for ever.
   */
  takeUp(p) {
    if (this.#base !== null) return;
    this.#base = p.firstSentAt === null ? 0 : p.elapsed + Math.max(this.#clock.now() - p.elapsedAt, 1000);
  }

  at() {
    return { now: this.#clock.now(), elapsed: this.#base + this.#clock.since() - this.#start, tries: this.tries };
  }

  /** began counts a try, and time from it if it is the first of all. */
  began(before) {
    this.tries++;
    if (before.firstSentAt !== null) return;
    this.#base = 0;
    this.#start = this.#clock.since();
  }

  /** waitFor takes in when the next try is to be. */
  waitFor(p) {
    this.#due = p && p.nextAt !== null ? this.#clock.since() + p.nextAt - p.updatedAt : null;
  }

  waitOf(p) {
    return p.nextAt === null || this.#due === null ? 0 : Math.max(0, this.#due - this.#clock.since());
  }
}

const systemClock = {
  now: () => Date.now(),
  since: () => performance.now(),
  setTimeout: (f, ms) => setTimeout(f, ms),
  clearTimeout: (id) => clearTimeout(id),
};

/**
 * PayClient sends payments until they are settled: whatever happens to the network, the tab or the browser, each under the one key that it
 * was begun with. It never makes a key for a payment that exists.
 */
export class PayClient {
  #o;
  #user = null;
  #closed = false;
  #stop = new AbortController();
  /** The payments that this client drives, or waits for another tab to drive. */
  #driven = new Set();
  /** What wakes the sleeps of a payment. */
  #wakes = new Map();
  #listeners = new Set();

  /** @param {Options} options */
  constructor(options) {
    const clock = options.clock ?? systemClock;
    this.#o = {
      base: '', extra: () => ({}), online: () => true, channel: null, random: Math.random, timeout: 50_000, poll: 2_000, ...options, clock,
      fetch: options.fetch ?? ((...args) => globalThis.fetch(...args)),
      locks: options.locks ?? (globalThis.navigator?.locks ? webLocks() : leaseLocks(options.store, clock)),
    };
    this.#o.channel?.listen((message) => this.#heard(message));
    if (!this.#o.channel) this.#pollForever();
  }

  /**
   * start drives the open payments of a user, and stops driving those of another one: credentials are of one user at a time.
   *
   * @param {string|null} user
   * @returns {Promise<Payment[]>} what is open
   */
  async start(user) {
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#user = user;
    if (user === null) return [];
    const open = [];
    for (const p of await this.#o.store.list(user)) {
      // What is unknown may have become known. To send it again is for a person to say.
      if (p.state === State.UNKNOWN && !p.hold) await this.#change(p.key, (now) => (now.state === State.UNKNOWN && !now.asking ? hurried(now, this.#o.clock.now(), 'look') : undefined));
      if (isOpen(p)) open.push(p);
      if (isDriven(p) || p.state === State.UNKNOWN) this.#drive(p.key);
    }
    return open;
  }

  /** close ends everything that this client does. What was begun goes on with the next one. */
  close() {
    this.#closed = true;
    this.#user = null;
    this.#stop.abort();
    for (const key of [...this.#wakes.keys()]) this.#wake(key);
    this.#o.channel?.close();
    this.#listeners.clear();
  }

  /**
   * draft is the form of a user: its key is made with it, the same in every tab, and goes when the form is sent.
   *
   * @param {string} user
   */
  draft(user) {
    return this.#o.store.draft(user, newKey);
  }

  /** keepDraft keeps what stands in a form. @param {import('./memory-store.js').Draft} draft */
  keepDraft(draft) {
    return this.#o.store.keepDraft(draft);
  }

  /**
   * pay writes a payment down, and begins to send it. When it returns, the payment is on disk; if it rejects, nothing was sent. Where
   * this key was sent already, or another payment of the user is open, that one is returned, and nothing new begins.
   *
   * @param {{key: string, user: string, path?: string, body: string}} what
   * @returns {Promise<{payment: Payment, found: ''|'key'|'open'}>}
   * @throws {KeyTaken}
   */
  async pay({ key, user, path = '/v1/transfers', body }) {
    const begun = await this.#o.store.begin(newPayment({ key, user, path, body }, this.#o.clock.now()), isOpen);
    if (begun.found === 'key' && !(begun.payment.path === path && isSameRequest(begun.payment.body, body))) throw new KeyTaken(begun.payment);
    if (begun.found === '') this.#changed(begun.payment);
    if (this.#user === user) this.#drive(begun.payment.key);
    return begun;
  }

  /** @param {string} key */
  get(key) {
    return this.#o.store.get(key);
  }

  /** @param {string} user @returns {Promise<Payment[]>} oldest first */
  list(user) {
    return this.#o.store.list(user);
  }

  /** tryNow has the next try made at once, by whichever tab sends. */
  async tryNow(key) {
    await this.#change(key, (p) => (p.hold || isFinal(p) ? undefined : hurried(p, this.#o.clock.now())));
    this.#hurry(key);
    this.#drive(key);
  }

  /** wake has every payment tried at once: the network is back. */
  async wake() {
    if (this.#user === null || !this.#o.online()) return;
    for (const p of await this.#o.store.list(this.#user)) {
      if (isOpen(p) && !p.hold) await this.tryNow(p.key);
    }
  }

  /** resume lets a payment go on that waits for a person: who has signed in, or wants an old one sent after all. */
  async resume(key) {
    await this.#change(key, (p) => (p.hold === 'sign-in' || p.hold === 'stale' ? freed(p, this.#o.clock.now()) : undefined));
    this.#hurry(key);
    this.#drive(key);
  }

  /**
   * mend gives another body to a payment that the server did not understand, under the same key. That is right only while nothing can have
   * been decided under it.
   *
   * @throws {NotAllowed}
   */
  async mend(key, body) {
    let allowed = false;
    await this.#change(key, (p) => {
      allowed = p.mendable && isUndecided(p);
      return allowed ? mended(p, body, this.#o.clock.now()) : undefined;
    });
    if (!allowed) throw new NotAllowed('this payment may have been made: it is sent again as it is, until that is known');
    this.#drive(key);
  }

  /** discard forgets a payment of which nothing can have been decided. @throws {NotAllowed} */
  async discard(key) {
    let allowed = false;
    // It is taken out of the driver's hands first.
    await this.#change(key, (p) => {
      allowed = isUndecided(p);
      return allowed ? held(p, 'stale', this.#o.clock.now()) : undefined;
    });
    if (!allowed) throw new NotAllowed('this payment may have been made: it cannot be taken back here');
    await this.#o.store.forget(key);
    this.#tell(key);
  }

  /**
   * show reports whether the end of a payment is to be shown here: to one caller, once.
   *
   * @param {string} key
   * @returns {Promise<boolean>}
   */
  async show(key) {
    let first = false;
    await this.#o.store.change(key, (p) => {
      first = !isOpen(p) && !p.shown;
      return first ? { ...p, shown: true } : undefined;
    });
    if (first) this.#tell(key);
    return first;
  }

  /** prune forgets what ended so long ago, and was shown. */
  async prune(user, age) {
    for (const p of await this.#o.store.list(user)) {
      if (isFinal(p) && p.shown && this.#o.clock.now() - p.updatedAt > age) await this.#o.store.forget(p.key);
    }
  }

  /**
   * subscribe has a function called with the key of each payment that has changed, here or in another tab; and with null where nobody can
   * tell which. It returns what ends that.
   *
   * @param {(key: string|null, problem?: Error) => void} listener
   */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** drive sends a payment until it is settled or held. Of all tabs one does, the others stand in line. */
  async #drive(key) {
    const { signal } = this.#stop;
    if (this.#driven.has(key) || signal.aborted || this.#user === null) return;
    this.#driven.add(key);
    let failed = false;
    try {
      await this.#o.locks.hold(`khata-pay:${key}`, signal, async () => {
        for (const run = new Run(this.#o.clock); !signal.aborted && (await this.#step(key, signal, run)););
      });
    } catch (err) {
      failed = !signal.aborted;
      if (failed) this.#say(key, err);
    } finally {
      this.#driven.delete(key);
    }
    // It may have been freed, or the user be back, between the last look and here.
    if (!failed) await this.#again(key);
  }

  async #again(key) {
    const p = await this.#o.store.get(key).catch(() => undefined);
    if (p && p.user === this.#user && isDriven(p)) this.#drive(key);
  }

  /** step does the next thing with a payment, and reports whether there may be another. */
  async #step(key, signal, run) {
    const { clock, store } = this.#o;
    try {
      const p = await store.get(key);
      if (!p || !isDriven(p)) return false;
      run.takeUp(p);
      const wait = run.waitOf(p);
      if (wait > 0) {
        await this.#sleep(key, Math.min(wait, LONGEST_SLEEP), signal);
        return true;
      }
      if (!this.#o.online()) {
        await this.#sleep(key, OFFLINE_PAUSE, signal);
        return true;
      }
      await this.#do(p, due(p, run.at()), signal, run);
    } catch (err) {
      // The store fails, or there is no token for the moment. What cannot be written down is not sent.
      this.#say(key, err);
      await this.#sleep(key, OFFLINE_PAUSE, signal);
    }
    return true;
  }

  async #do(p, what, signal, run) {
    const { clock, random } = this.#o;
    if (what === 'stale') return void (await this.#change(p.key, (now) => held(now, 'stale', clock.now())));
    const token = p.user === this.#user ? await this.#o.token(p.user) : null;
    if (signal.aborted) return;
    if (!token) return void (await this.#change(p.key, (now) => (isDriven(now) ? held(now, 'sign-in', clock.now()) : undefined)));
    if (what === 'look') {
      const answer = await this.#ask(`/v1/transfers/by-idempotency-key/${encodeURIComponent(p.key)}`, { headers: bearer(token) });
      const at = { ...run.at(), n: p.looks, random };
      return void run.waitFor(await this.#change(p.key, (now) => (isFinal(now) ? undefined : endLookUp(now, answer, at))));
    }
    const extra = this.#o.extra(p);
    let sent;
    await this.#change(p.key, (now) => {
      sent = isDriven(now) ? beginTry(now, run.at(), extra.label) : undefined;
      return sent;
    });
    if (!sent) return;
    run.began(p);
    // From here on the try is on disk, and may leave.
    const answer = await this.#ask(sent.path, {
      method: 'POST',
      headers: { ...extra.headers, ...bearer(token), 'Content-Type': 'application/json', 'Idempotency-Key': sent.key },
      body: sent.body,
    });
    const at = { ...run.at(), n: run.tries - 1, random };
    run.waitFor(await this.#change(p.key, (now) => (isFinal(now) ? undefined : endTry(now, answer, at))));
  }

  /**
   * ask sends a request, and gives the whole answer, or null for anything less.
   *
   * @returns {Promise<import('./answer.js').Answer|null>}
   */
  async #ask(path, init) {
    const { clock, timeout } = this.#o;
    const limit = new AbortController();
    const timer = clock.setTimeout(() => limit.abort(), timeout);
    try {
      // A redirect is never followed: it would take the money's order to somebody else.
      const response = await this.#o.fetch(this.#o.base + path, {
        ...init, cache: 'no-store', credentials: 'omit', redirect: 'manual', referrerPolicy: 'no-referrer', signal: limit.signal,
      });
      return {
        status: response.status, contentType: response.headers.get('Content-Type') ?? '', retryAfter: response.headers.get('Retry-After') ?? undefined,
        date: response.headers.get('Date') ?? undefined, replayed: response.headers.get('Idempotent-Replayed') === 'true', body: await response.text(),
      };
    } catch {
      return null;
    } finally {
      clock.clearTimeout(timer);
    }
  }

  async #change(key, change) {
    let touched = false;
    const p = await this.#o.store.change(key, (before) => {
      const after = change(before);
      touched = Boolean(after);
      return after;
    });
    if (p && touched) this.#changed(p);
    return p;
  }

  #changed(p) {
    this.#tell(p.key);
  }

  /** tell says here and in other tabs that a payment has changed. */
  #tell(key) {
    this.#o.channel?.post({ key });
    this.#say(key);
  }

  #say(key, problem) {
    for (const listener of [...this.#listeners]) listener(key, problem);
  }

  #hurry(key) {
    this.#o.channel?.post({ key, hurry: true });
    this.#wake(key);
  }

  #heard({ key, hurry }) {
    if (hurry) this.#wake(key);
    this.#say(key);
    this.#again(key); // It may be new, and the tab that has begun it may die.
  }

  #wake(key) {
    for (const wake of this.#wakes.get(key) ?? []) wake();
  }

  /** sleep ends after a time, or when it is woken. */
  #sleep(key, ms, signal) {
    const { clock, channel, poll } = this.#o;
    return new Promise((resolve) => {
      const wakes = this.#wakes.get(key) ?? new Set();
      this.#wakes.set(key, wakes);
      const end = () => {
        clock.clearTimeout(timer);
        signal.removeEventListener('abort', end);
        wakes.delete(end);
        if (wakes.size === 0) this.#wakes.delete(key);
        resolve();
      };
      const timer = clock.setTimeout(end, channel ? ms : Math.min(ms, poll));
      signal.addEventListener('abort', end);
      wakes.add(end);
      if (signal.aborted) end();
    });
  }

  /** pollForever looks at the store where other tabs cannot be heard. */
  #pollForever() {
    const { clock, poll } = this.#o;
    clock.setTimeout(async () => {
      if (this.#closed) return;
      if (this.#user !== null) {
        const open = await this.#o.store.list(this.#user).catch(() => []);
        for (const p of open) if (isDriven(p)) this.#drive(p.key);
        this.#say(null);
      }
      this.#pollForever();
    }, poll);
  }
}

function bearer(token) {
  return { Authorization: `Bearer ${token}` };
}
