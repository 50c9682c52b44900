/** When to send the same again; ledger/payclient has the same in Go. All times are in milliseconds. */

const FIRST = 500;
const LONGEST = 60_000;
/** For how long from the first sending tries follow each other quickly, and how far they are apart later. */
const QUICK_FOR = 10 * 60_000;
const SLOW_LEAST = 5 * 60_000;
const SLOW_MOST = 15 * 60_000;
const SHORTEST_ASKED = 1_000;
const LONGEST_PAUSE = 15 * 60_000;

/**
 * pause is how long to wait after a try without an answer. All of it is chance, so that those whom one outage has hit do not come back
 * together; on top of what a server asks for, which is the same for everybody, there is chance for the same reason. A server that asks for
 * a day is not to keep anybody from knowing.
 *
 * @param {number} n the n-th try of this run, from 0
 * @param {number} elapsed since the first sending
 * @param {number|undefined} asked what Retry-After says
 * @param {() => number} random in [0, 1)
 */
export function pause(n, elapsed, asked, random) {
  const slow = elapsed >= QUICK_FOR;
  let least = slow ? SLOW_LEAST : 0;
  let most = slow ? SLOW_MOST : Math.min(LONGEST, FIRST * 2 ** Math.min(n, 30));
  if (asked !== undefined) {
    least = Math.max(Math.min(Math.max(asked, SHORTEST_ASKED), LONGEST_PAUSE), least);
    most = Math.max(Math.min(least + most, LONGEST_PAUSE), least);
  }
  return Math.floor(least + random() * (most - least));
}

/**
 * retryAfter reads the header of that name: seconds, or a date, which is compared with the server's own clock where it tells it. Nonsense
 * is undefined.
 *
 * @param {string|null|undefined} header
 * @param {number} now
 * @param {string|null} [date] the header of that name
 * @returns {number|undefined}
 */
export function retryAfter(header, now, date) {
  const text = header?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const at = parseDate(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - (parseDate(date) || now));
}

/** Date.parse alone would take "-5" for a date. */
function parseDate(text) {
  return /^[A-Z][a-z]{2}/.test(text ?? '') ? Date.parse(text) : NaN;
}
