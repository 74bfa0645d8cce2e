import { effect, signal } from '@preact/signals';
import { type Live, streamLive } from './api/operations.ts';
import { ApiError, csrf } from './api/request.ts';

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;
/** The gateway sends stats every second; after so long a silence the connection is considered lost. */
const SILENT_MS = 10_000;
/** Each node of a cluster says `hello` for itself, soon after the first: those that come together count as one. */
const HELLOS_MS = 250;
/** A tab in the background gives its connection back: browsers have six for all tabs of an origin. */
const HIDDEN_MS = 60_000;

type Topic = Live['topic'];
type LiveMessage<T extends Topic> = Extract<Live, { readonly topic: T }>;
type Listener = (message: never) => void;

const listeners = new Map<Topic, Set<Listener>>();
/** How many parts of the page show the log of each server. */
const logsOf = new Map<string, number>();
/** The servers whose log is asked for; `*` for several. */
const logs = signal<string | undefined>(undefined);

/** `open`: what is shown is current. */
export const liveState = signal<'connecting' | 'open' | 'lost' | 'resting'>('connecting');
/** With which answer the last try to open the stream was refused; null where there was none. */
export const refusal = signal<ApiError | null>(null);

/**
 * Calls the listener for each message of the topic; the returned function ends that. After each `hello` the lists have to be
 * read again: the stream has begun, and what came before is in none of its messages.
 */
export function onLive<T extends Topic>(topic: T, listener: (message: LiveMessage<T>) => void): () => void {
  const set = listeners.get(topic) ?? new Set();
  listeners.set(topic, set);
  set.add(listener as Listener);
  return () => void set.delete(listener as Listener);
}

/** One function that calls all of these. */
export function stopAll(...stops: readonly (() => void)[]): () => void {
  return () => {
    for (const stop of stops) stop();
  };
}

/** Asks for the log of this server as well, until the returned function is called. */
export function wantLogs(server: string): () => void {
  const add = (more: number): void => {
    const count = (logsOf.get(server) ?? 0) + more;
    if (count > 0) logsOf.set(server, count);
    else logsOf.delete(server);
    const [first, second] = logsOf.keys();
    logs.value = second === undefined ? first : '*';
  };
  add(1);
  return () => add(-1);
}

let running: AbortController | null = null;

/** Keeps the one stream of this page open while the browser is logged in and the page is looked at. */
export function startLive(): void {
  effect(() => {
    const wanted = csrf.value !== null && liveState.value !== 'resting';
    const server = logs.value;
    if (running !== null && (!wanted || asked !== server)) {
      running.abort();
      running = null;
    }
    if (wanted && running === null) void follow(server);
  });
  let resting: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(resting);
    if (document.hidden) {
      resting = setTimeout(() => {
        liveState.value = 'resting';
      }, HIDDEN_MS);
    } else if (liveState.peek() === 'resting') liveState.value = 'connecting';
  });
}

let asked: string | undefined;

async function follow(server: string | undefined): Promise<void> {
  const ended = new AbortController();
  running = ended;
  asked = server;
  let retryMs = FIRST_RETRY_MS;
  while (!ended.signal.aborted) {
    const silent = new AbortController();
    let alarm: ReturnType<typeof setTimeout> | undefined;
    let begun = false;
    let later: ReturnType<typeof setTimeout> | undefined;
    let refused: ApiError | null = null;
    const heard = (): void => {
      clearTimeout(alarm);
      alarm = setTimeout(() => silent.abort(), SILENT_MS);
    };
    try {
      heard();
      await streamLive(
        { logs: server },
        {
          signal: AbortSignal.any([ended.signal, silent.signal]),
          onOpen() {
            retryMs = FIRST_RETRY_MS;
            liveState.value = 'open';
          },
          onEvent(message) {
            heard();
            if (message.topic !== 'hello') tell(message);
            else if (begun) {
              later ??= setTimeout(() => {
                later = undefined;
                tell(message);
              }, HELLOS_MS);
            } else {
              begun = true;
              tell(message);
            }
          },
        },
      );
    } catch (error) {
      // Whatever broke it, the next try shows whether it lasts.
      if (error instanceof ApiError && error.status !== 0) refused = error;
    } finally {
      clearTimeout(alarm);
      clearTimeout(later);
    }
    if (ended.signal.aborted || csrf.peek() === null) break;
    liveState.value = 'lost';
    refusal.value = refused;
    await new Promise((resolve) => setTimeout(resolve, retryMs));
    retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
  }
  if (running === ended) running = null;
}

function tell(message: Live): void {
  for (const listener of listeners.get(message.topic) ?? []) listener(message as never);
}
