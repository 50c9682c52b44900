/** What the page reads: a wallet and its entries. Payments go through payclient alone. */

const TIMEOUT = 20_000;

/** @returns {Promise<{status: number, body: any}>} status is 0 where there was no answer */
async function get(path, token) {
  try {
    const response = await fetch(path, {
      headers: { Authorization: `Bearer ${token}` }, cache: 'no-store', credentials: 'omit', redirect: 'error', signal: AbortSignal.timeout(TIMEOUT),
    });
    return { status: response.status, body: await response.json() };
  } catch {
    return { status: 0, body: null };
  }
}

const path = (wallet) => `/v1/wallets/${encodeURIComponent(wallet)}`;

export const getWallet = ({ wallet, token }) => get(path(wallet), token);
export const getEntries = ({ wallet, token }, limit) => get(`${path(wallet)}/entries?limit=${limit}`, token);

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/**
 * knock sends a payment's bytes under its key, past everything that this page does to send it once: for the panel. Several at once may be
 * told to wait for each other (409), which is no answer.
 */
export async function knock(payment, token) {
  try {
    for (let n = 0; ; n++) {
      const response = await fetch(payment.path, {
        method: 'POST', body: payment.body, cache: 'no-store', credentials: 'omit', redirect: 'error',
        headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json', 'Idempotency-Key': payment.key },
      });
      const body = await response.text();
      if (n === 5 || ![409, 429, 503].includes(response.status)) return { replayed: response.headers.get('Idempotent-Replayed') === 'true', body };
      await pause(300 + Math.random() * 700);
    }
  } catch {
    return null;
  }
}
