/**
 * The storage of a browser. A write is done when its transaction is complete, with durability 'strict': then the browser has flushed it to
 * disk. The success of a request comes before that, and would be believed too early.
 */

const VERSION = 1;

/** @implements {import('./memory-store.js').Store} */
export class IndexedDBStore {
  #name;
  #factory;
  #opening = null;

  /**
   * @param {string} name of the database
   * @param {IDBFactory} [factory]
   */
  constructor(name = 'khata-pay', factory = globalThis.indexedDB) {
    this.#name = name;
    this.#factory = factory;
  }

  async get(key) {
    return this.#within(['payments'], 'readonly', (tx, give) => ask(tx.objectStore('payments').get(key), give));
  }

  async list(user) {
    const found = await this.#within(['payments'], 'readonly', (tx, give) => ask(tx.objectStore('payments').index('user').getAll(user), give));
    return found.sort((a, b) => a.createdAt - b.createdAt);
  }

  async begin(payment, isOpen) {
    return this.#within(['payments', 'drafts'], 'readwrite', (tx, give) => {
      const payments = tx.objectStore('payments');
      ask(payments.get(payment.key), (same) => {
        if (same) return give({ payment: same, found: 'key' });
        ask(payments.index('user').getAll(payment.user), (all) => {
          const open = all.find(isOpen);
          if (open) return give({ payment: open, found: 'open' });
          payments.add(payment);
          const drafts = tx.objectStore('drafts');
          ask(drafts.get(payment.user), (draft) => draft?.key === payment.key && drafts.delete(payment.user));
          give({ payment, found: '' });
        });
      });
    });
  }

  async change(key, change) {
    return this.#within(['payments'], 'readwrite', (tx, give) => {
      const payments = tx.objectStore('payments');
      ask(payments.get(key), (before) => {
        const after = before && change(before);
        if (after) payments.put(after);
        give(after || before);
      });
    });
  }

  async forget(key) {
    return this.#within(['payments'], 'readwrite', (tx) => tx.objectStore('payments').delete(key));
  }

  async draft(user, mint) {
    return this.#within(['drafts'], 'readwrite', (tx, give) => {
      const drafts = tx.objectStore('drafts');
      ask(drafts.get(user), (found) => {
        const draft = found ?? { user, key: mint(), fields: null };
        if (!found) drafts.put(draft);
        give(draft);
      });
    });
  }

  async keepDraft(draft) {
    return this.#within(['drafts'], 'readwrite', (tx, give) => {
      const drafts = tx.objectStore('drafts');
      ask(drafts.get(draft.user), (found) => {
        if (found?.key === draft.key) drafts.put(draft);
        give(found?.key === draft.key);
      });
    });
  }

  async lease(name, holder, now, term) {
    return this.#within(['leases'], 'readwrite', (tx, give) => {
      const leases = tx.objectStore('leases');
      ask(leases.get(name), (found) => {
        // One that ends later than any can was taken by a clock that was ahead.
        if (found && found.holder !== holder && found.until > now && found.until <= now + term) return give(false);
        leases.put({ name, holder, until: now + term });
        give(true);
      });
    });
  }

  async release(name, holder) {
    return this.#within(['leases'], 'readwrite', (tx) => {
      const leases = tx.objectStore('leases');
      ask(leases.get(name), (found) => found?.holder === holder && leases.delete(name));
    });
  }

  /** within runs work in one transaction, and answers what it has given when the transaction is complete. */
  async #within(stores, mode, work) {
    const db = await this.#open();
    return new Promise((resolve, reject) => {
      let given;
      const tx = db.transaction(stores, mode, { durability: 'strict' });
      tx.oncomplete = () => resolve(given);
      tx.onabort = () => reject(tx.error ?? new Error('the transaction was aborted'));
      work(tx, (value) => { given = value; });
    });
  }

  #open() {
    this.#opening ??= new Promise((resolve, reject) => {
      if (!this.#factory) throw new Error('this browser has no IndexedDB');
      const request = this.#factory.open(this.#name, VERSION);
      request.onupgradeneeded = () => {
        request.result.createObjectStore('payments', { keyPath: 'key' }).createIndex('user', 'user');
        request.result.createObjectStore('drafts', { keyPath: 'user' });
        request.result.createObjectStore('leases', { keyPath: 'name' });
      };
      request.onsuccess = () => {
        const db = request.result;
        const gone = () => { this.#opening = null; };
        db.onversionchange = () => { db.close(); gone(); };
        db.onclose = gone;
        resolve(db);
      };
      request.onerror = () => reject(request.error);
    }).catch((err) => {
      this.#opening = null; // The next one tries again.
      throw err;
    });
    return this.#opening;
  }
}

/** ask gives the result of a request to a function, whose failure aborts the transaction. */
function ask(request, then) {
  request.onsuccess = () => {
    try {
      then(request.result);
    } catch (err) {
      request.transaction.abort();
      throw err;
    }
  };
}
