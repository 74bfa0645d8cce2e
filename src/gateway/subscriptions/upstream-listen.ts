import type { ClientProfile } from '../../model/client-profile.ts';
import type { Message } from '../../model/message.ts';
import type { ListenOwner } from './server-listen.ts';
import type { Wanted } from './wanted.ts';

/** Updates of one overlap that are remembered; beyond that some are sent twice, which is harmless. */
const MAX_SEEN = 1_000;

/** One `subscriptions/listen` of a feed's, from its opening to the one that takes its place. */
export class UpstreamListen implements ListenOwner {
  readonly id: string;
  readonly client: ClientProfile;
  readonly wanted: Wanted;
  open = true;
  /** null until the server has acknowledged, or has had its time to. */
  honoured: Wanted | null = null;
  /** Bodies that came while its predecessor was still open; null when it is alone. */
  #seen: Set<string> | null = null;
  readonly #cleanUp: (() => void)[] = [];

  constructor(id: string, client: ClientProfile, wanted: Wanted) {
    this.id = id;
    this.client = client;
    this.wanted = wanted;
  }

  onEnd(cleanUp: () => void): void {
    if (this.open) this.#cleanUp.push(cleanUp);
    else cleanUp();
  }

  end(): void {
    if (!this.open) return;
    this.open = false;
    for (const cleanUp of this.#cleanUp.splice(0)) cleanUp();
  }

  overlaps(): void {
    this.#seen = new Set();
  }

  alone(): void {
    this.#seen = null;
  }

  saw(message: Message): void {
    if (this.#seen !== null && this.#seen.size < MAX_SEEN) this.#seen.add(message.body.toString('latin1'));
  }

  hasSeen(message: Message): boolean {
    return this.#seen?.has(message.body.toString('latin1')) === true;
  }
}
