/** What the server has told this page, and small things that all of it uses. */

/** @type {{language: string, texts: Record<string, string>, sandbox: boolean, users: {name: string, token: string, wallet: string}[]}} */
export const page = JSON.parse(document.body.dataset.forScript);

/** text gives words in the page's language, with what is to be filled in. */
export function text(name, values = {}) {
  const words = page.texts[name];
  if (words === undefined) throw new Error(`there is no text ${name}`);
  return words.replace(/\{(\w+)\}/g, (_, of) => String(values[of] ?? ''));
}

/** hasText reports whether there are words of this name. */
export const hasText = (name) => page.texts[name] !== undefined;

/** @param {string} id @returns {any} */
export const element = (id) => document.getElementById(id);

/** make makes an element. What it contains is text, whatever it says. */
export function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'class') made.className = value;
    else if (name.includes('-')) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** say sets a text if it is another one: what is the same is not to be read out again. */
export function say(where, words) {
  if (where.textContent !== words) where.textContent = words;
}

const locale = page.language === 'bn' ? 'bn-BD' : 'en-GB';
const clock = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short', hourCycle: 'h23' });

/** when writes a time. @param {number|string} at */
export const when = (at) => clock.format(new Date(at));
