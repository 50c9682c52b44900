/**
 * What an answer means: the table in docs/payments.md, "What to do on which answer", and nothing else. It decides by status and content
 * type first, and believes a body only where it is Khata's own: proxies, captive portals and other people's servers answer too, with any
 * status.
 *
 * @typedef {object} Answer
 * @property {number} status 0 for one that the browser keeps to itself, such as a redirect
 * @property {string} [contentType]
 * @property {string} [retryAfter] the header, as it came
 * @property {string} [date] the same
 * @property {boolean} [replayed] whether Idempotent-Replayed said so
 * @property {string} body all of it: half an answer is no answer
 *
 * @typedef {object} Problem what Khata says of an error, RFC 9457
 * @property {number} status
 * @property {string} code
 * @property {string} [title]
 * @property {string} [detail]
 * @property {string} [transfer_id] there if the refusal is on record
 * @property {string} [account]
 * @property {{field: string, message: string}[]} [fields]
 *
 * @typedef {object} Verdict
 * @property {'done'|'refused'|'reused'|'mend'|'sign-in'|'open'|'none'} kind
 *   done: the money has moved. refused: the books have said no, for ever. reused: the key names another payment. mend: this try has
 *   decided nothing, and the same request will not. sign-in: neither, without another token. open: whether it happened is not known.
 *   none: of a look-up, nothing is decided yet.
 * @property {object} [result] the payment, of done
 * @property {Problem} [problem]
 */

/** The statuses below 500 that ask for the same request again. */
const again = new Set([408, 409, 425, 429]);

/**
 * judge says what an answer to a payment means. No answer at all is null.
 *
 * @param {Answer|null} answer
 * @returns {Verdict}
 */
export function judge(answer) {
  if (!answer) return { kind: 'open' };
  if (answer.status === 201) {
    const result = parse(answer, 'application/json');
    return isPayment(result) ? { kind: 'done', result } : { kind: 'open' };
  }
  const problem = problemOf(answer);
  if (!problem) return { kind: 'open' };
  if (problem.status === 401 || problem.status === 403) return { kind: 'sign-in', problem };
  if (problem.status >= 500 || again.has(problem.status)) return { kind: 'open', problem };
  if (problem.status !== 422) return { kind: 'mend', problem };
  if (isPayment(problem)) return { kind: 'refused', problem };
  return { kind: problem.code === 'IDEMPOTENCY_KEY_REUSED' ? 'reused' : 'mend', problem };
}

/**
 * judgeLookUp says what an answer to GET /v1/transfers/by-idempotency-key/{key} means.
 *
 * @param {Answer|null} answer
 * @returns {Verdict}
 */
export function judgeLookUp(answer) {
  if (!answer) return { kind: 'open' };
  if (answer.status !== 200) {
    const problem = problemOf(answer);
    if (problem?.status === 401 || problem?.status === 403) return { kind: 'sign-in', problem };
    return { kind: problem?.status === 404 && problem.code === 'TRANSFER_NOT_FOUND' ? 'none' : 'open' };
  }
  const body = parse(answer, 'application/json');
  if (!isPayment(body?.payment)) return { kind: 'open' };
  if (body.status === 'posted') return { kind: 'done', result: body.payment };
  if (body.status === 'refused') return { kind: 'refused', problem: body.payment };
  return { kind: 'open' };
}

/** parse gives the object that a body of this type is; anything else, and half of one, is null. */
function parse(answer, type) {
  if ((answer.contentType ?? '').split(';')[0].trim().toLowerCase() !== type) return null;
  try {
    const body = JSON.parse(answer.body);
    return body !== null && typeof body === 'object' && !Array.isArray(body) ? body : null;
  } catch {
    return null;
  }
}

function isPayment(body) {
  return typeof body?.transfer_id === 'string' && body.transfer_id !== '';
}

/** problemOf gives Khata's problem, or null. One of another status was changed by somebody on the way. @returns {Problem|null} */
function problemOf(answer) {
  if (answer.status < 400) return null;
  const body = parse(answer, 'application/problem+json');
  return typeof body?.code === 'string' && body.code !== '' && body.status === answer.status ? body : null;
}
