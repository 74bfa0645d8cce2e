import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import { OwnExchange } from '../own-exchange.ts';

const REOPEN_MIN_MS = 1_000;
const REOPEN_MAX_MS = 30_000;

/** The owner of a listen at a server, which lives as long. */
export abstract class ListenOwner {
  abstract readonly id: string;
  abstract readonly client: ClientProfile;
  #open = true;
  readonly #cleanUp: (() => void)[] = [];

  get open(): boolean {
    return this.#open;
  }

  /** Runs when the owner ends; at once if it has ended. */
  onEnd(cleanUp: () => void): void {
    if (this.#open) this.#cleanUp.push(cleanUp);
    else cleanUp();
  }

  end(): void {
    this.#open = false;
    for (const cleanUp of this.#cleanUp.splice(0)) cleanUp();
  }
}

interface ServerListenHandlers {
  /** The server's acknowledgement, at each opening. */
  acknowledged(message: Message): void;
  /** Any other notification on the stream. */
  received(message: Message): void;
  /** The server answered: it refused, or ended the subscription gracefully. The listen is not reopened. */
  answered(outcome: Outcome): void;
}

/**
 * Keeps a `subscriptions/listen` open at one stateless server while its owner lives: a broken stream is reopened, with
 * exponential backoff. `request` has the id of the client's own listen, if any, so that notifications are tagged with it.
 */
export function openListen(
  { dispatch, clock }: { readonly dispatch: Dispatch; readonly clock: Clock },
  owner: ListenOwner,
  server: string,
  request: Message,
  handlers: ServerListenHandlers,
): void {
  let exchange: OwnExchange | null = null;
  let disarm: (() => void) | null = null;
  let pauseMs = REOPEN_MIN_MS;
  const open = (): void => {
    exchange = new OwnExchange(owner.id, request, owner.client, (message) => {
      if (message.method !== 'notifications/subscriptions/acknowledged') return handlers.received(message);
      pauseMs = REOPEN_MIN_MS;
      handlers.acknowledged(message);
    });
    void dispatch.callServer(server, request, exchange).then((outcome) => {
      exchange = null;
      if (!owner.open) return;
      if (outcome.kind === 'answer') return handlers.answered(outcome);
      disarm = clock.after(pauseMs, open);
      pauseMs = Math.min(pauseMs * 2, REOPEN_MAX_MS);
    });
  };
  owner.onEnd(() => {
    disarm?.();
    exchange?.cancel('the subscription has ended');
  });
  if (owner.open) open();
}
