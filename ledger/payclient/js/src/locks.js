/**
 * One of several tabs sends, the others watch. The lock is there to keep them from knocking at once, which would be answered with 409s; it
 * is not what keeps a payment from happening twice. That is the key, and so a lock that is lost does no harm.
 *
 * @typedef {object} Locks
 * @property {(name: string, signal: AbortSignal, work: () => Promise<void>) => Promise<void>} hold waits for the lock, and does the work
 *   while it has it. It rejects if the signal comes before the lock does.
 */

/**
 * webLocks are the browser's own, which it takes back when a tab dies. They are there on https and localhost.
 *
 * @returns {Locks}
 */
export function webLocks(manager = globalThis.navigator?.locks) {
  return { hold: (name, signal, work) => manager.request(name, { signal }, work) };
}

/**
 * leaseLocks are leases in the store, for where there are no Web Locks. A tab that dies keeps its own for the term.
 *
 * @param {import('./memory-store.js').Store} store
 * @param {import('./client.js').Clock} clock
 * @returns {Locks}
 */
export function leaseLocks(store, clock, { holder = crypto.getRandomValues(new Uint32Array(2)).join('-'), term = 20_000, every = 1_000 } = {}) {
  const pause = (ms) => new Promise((resolve) => { clock.setTimeout(resolve, ms); });
  const take = (name) => store.lease(name, holder, clock.now(), term);
  return {
    async hold(name, signal, work) {
      while (!(await take(name))) {
        await pause(every);
        signal.throwIfAborted();
      }
      let renewal;
      const renew = () => {
        renewal = clock.setTimeout(() => { take(name).catch(() => {}); renew(); }, term / 4);
      };
      renew();
      try {
        await work();
      } finally {
        clock.clearTimeout(renewal);
        await store.release(name, holder).catch(() => {}); // It ends by itself.
      }
    },
  };
}
