import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import { OwnExchange } from '../own-exchange.ts';

const REOPEN_MIN_MS = 1_000;
const REOPEN_MAX_MS = 30_000;

/** The client's stream that it is opened for. */
export interface ListenOwner {
  readonly id: string;
  readonly client: ClientProfile;
  readonly open: boolean;
  /** Runs when the owner ends, at once if it has. */
  onEnd(cleanUp: () => void): void;
}

export interface ServerListenHandlers {
  /** The server's acknowledgement, at each opening. */
  acknowledged(message: Message): void;
  /** Any other notification on the stream. */
  received(message: Message): void;
  /** The server answered: it refused, or ended the subscription gracefully. It is not opened again. */
  answered(outcome: Outcome): void;
}

/**
 * A `subscriptions/listen` of ours at one stateless server, on behalf of a client. It lives as long as its owner:
 * when the stream breaks it is opened again, with growing pauses.
 */
export class ServerListen {
  readonly #dispatch: Dispatch;
  readonly #clock: Clock;
  readonly #owner: ListenOwner;
  readonly #server: string;
  readonly #request: Message;
  readonly #handlers: ServerListenHandlers;
  #exchange: OwnExchange | null = null;
  #disarm: (() => void) | null = null;
  #pauseMs = REOPEN_MIN_MS;

  /** `request` bears the id of the client's own listen, if it has one, so that what comes back is tagged with that. */
  constructor(
    deps: { readonly dispatch: Dispatch; readonly clock: Clock },
    owner: ListenOwner,
    server: string,
    request: Message,
    handlers: ServerListenHandlers,
  ) {
    this.#dispatch = deps.dispatch;
    this.#clock = deps.clock;
    this.#owner = owner;
    this.#server = server;
    this.#request = request;
    this.#handlers = handlers;
    owner.onEnd(() => {
      this.#disarm?.();
      this.#exchange?.cancel('the subscription has ended');
    });
    if (owner.open) this.#open();
  }

  #open(): void {
    const { id, client } = this.#owner;
    this.#exchange = new OwnExchange(id, this.#request, client, (message) => {
      if (message.method !== 'notifications/subscriptions/acknowledged') {
        this.#handlers.received(message);
        return;
      }
      this.#pauseMs = REOPEN_MIN_MS;
      this.#handlers.acknowledged(message);
    });
    void this.#dispatch.callServer(this.#server, this.#request, this.#exchange).then((outcome) => {
      this.#exchange = null;
      if (!this.#owner.open) return;
      if (outcome.kind === 'answer') {
        this.#handlers.answered(outcome);
        return;
      }
      this.#disarm = this.#clock.after(this.#pauseMs, () => this.#open());
      this.#pauseMs = Math.min(this.#pauseMs * 2, REOPEN_MAX_MS);
    });
  }
}
