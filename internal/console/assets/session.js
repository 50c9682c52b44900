/**
 * Who sends money. A token is in the memory of this tab, and in its sessionStorage so that it survives a reload; never in a cookie, and never
 * beside the payments.
 */
import { page } from './page.js';

const KEPT = 'khata-session';

/** @typedef {{wallet: string, token: string, name: string}} Person */

/** restore gives whoever was signed in in this tab. @returns {Person|null} */
export function restore() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null');
    if (page.users.length === 0) return kept;
    return person(kept?.wallet);
  } catch {
    return null;
  }
}

/** person gives somebody of the sandbox. @returns {Person|null} */
export function person(wallet) {
  return page.users.find((user) => user.wallet === wallet) ?? null;
}

/** keep keeps who is signed in, or nobody. @param {Person|null} who */
export function keep(who) {
  try {
    if (who) sessionStorage.setItem(KEPT, JSON.stringify(who));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Without it a reload asks again.
  }
}

/**
 * embedded asks the app that this page is shown in, if there is one: it sets window.khataToken to a function that gives, or promises,
 * {token, wallet}, or null. It is asked before each try, so that tokens may be short-lived.
 *
 * @returns {Promise<Person|null>}
 */
export async function embedded() {
  if (typeof window.khataToken !== 'function') return null;
  const given = await window.khataToken();
  return given?.token && given?.wallet ? { token: given.token, wallet: given.wallet, name: given.wallet } : null;
}

/** walletOf guesses the wallet of a token: that of its subject, if it is a JWT. */
export function walletOf(token) {
  try {
    const { sub } = JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/')));
    return typeof sub === 'string' && sub ? `wallet:${sub}` : '';
  } catch {
    return '';
  }
}
