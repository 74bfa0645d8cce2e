import { signal } from '@preact/signals';
import { ApiError } from '../api/request.ts';
import './toasts.css';

interface Toast {
  readonly id: number;
  readonly tone: 'good' | 'bad';
  readonly text: string;
}

const SHOWN_MS = 6_000;
const MAX_SHOWN = 4;
const toasts = signal<readonly Toast[]>([]);
let lastId = 0;

/** Says what became of an action. What failed stays until it is dismissed. */
export function toast(tone: Toast['tone'], text: string): void {
  const id = ++lastId;
  toasts.value = [...toasts.value, { id, tone, text }].slice(-MAX_SHOWN);
  if (tone === 'good') setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Runs an action of the person and says what became of it. Resolves with null where it failed. */
export async function act<T>(done: string | ((answer: T) => string), run: () => Promise<T>): Promise<T | null> {
  try {
    const answer = await run();
    toast('good', typeof done === 'string' ? done : done(answer));
    return answer;
  } catch (error) {
    toast('bad', errorText(error));
    return null;
  }
}

export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (!(error instanceof ApiError) || error.problems.length === 0) return error.message;
  return error.problems
    .map(({ code, line, column, message, frame, fix }) => {
      const place = line === 0 ? '' : `${line}:${column}  `;
      return [`${code}  ${place}${message}`, ...(frame === '' ? [] : [frame]), `fix: ${fix}`].join('\n');
    })
    .join('\n');
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, tone, text }) => (
        <div key={id} class={`toast tone-${tone}`}>
          <span class="mark" aria-hidden="true" />
          <p>{text}</p>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
