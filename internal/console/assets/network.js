/** The switch for a bad network, which is in this tab alone. The server plays it: see console.BadNetwork. */
import { element, page, say, text } from './page.js';
import { digits } from './payclient/amount.js';

const HEADER = 'Khata-Sandbox-Network';

let left = 0;
let turn = 0;

/** setUp gives the switch its life. */
export function setUp() {
  const [mode, count] = [element('net-mode'), element('net-count')];
  const set = () => {
    const wanted = Math.min(20, Math.max(1, Math.floor(Number(count.value)) || 1));
    left = mode.value ? wanted : 0;
    turn = 0;
    show();
  };
  mode.addEventListener('change', set);
  count.addEventListener('change', set);
  mode.value = '';
  show();
}

/** extra is what the next try is sent with. */
export function extra() {
  if (left === 0) return {};
  left--;
  const mode = element('net-mode').value;
  const label = mode === 'both' ? ['lose-answer', 'lose-request'][turn++ % 2] : mode;
  if (left === 0) element('net-mode').value = '';
  show();
  return { headers: { [HEADER]: label }, label };
}

function show() {
  say(element('net-left'), left > 0 ? text('net.left', { n: digits(left, page.language) }) : text('net.off'));
}
