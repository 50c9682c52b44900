/**
 * How tabs tell each other that something has changed. A message says which payment and never what: that is read from the store.
 *
 * @typedef {object} Channel
 * @property {(message: {key: string, hurry?: boolean}) => void} post
 * @property {(listener: (message: {key: string, hurry?: boolean}) => void) => void} listen
 * @property {() => void} close
 */

/** broadcast is a channel of the browser, or null where there is none: clients look at the store from time to time then. @returns {Channel|null} */
export function broadcast(name = 'khata-pay') {
  if (typeof BroadcastChannel !== 'function') return null;
  const channel = new BroadcastChannel(name);
  return {
    post: (message) => channel.postMessage(message),
    listen: (listener) => { channel.onmessage = (event) => listener(event.data); },
    close: () => channel.close(),
  };
}
