/**
 * Payments to Khata from a browser or Node. See README.md, and docs/payments.md for the contract that it keeps.
 */
export { PayClient, KeyTaken, NotAllowed } from './client.js';
export { State, isOpen, isFinal, inDoubt, HORIZON } from './payment.js';
export { judge, judgeLookUp } from './answer.js';
export { pause, retryAfter } from './schedule.js';
export { newKey } from './key.js';
export { MemoryStore } from './memory-store.js';
export { IndexedDBStore } from './indexeddb-store.js';
export { webLocks, leaseLocks } from './locks.js';
export { broadcast } from './channel.js';
