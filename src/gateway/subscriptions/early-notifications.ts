import { parseObject } from '../../catalog/catalog-member.ts';
import type { Message } from '../../model/message.ts';
import { notification } from '../../protocol/compose.ts';
import { LIST_FLAGS } from './listen-filter.ts';
import { honouredBy } from './wanted.ts';

const MAX_COUNT = 256;
const MAX_BYTES = 256 * 1024;

/**
 * What came on a listen before its acknowledgement. Where it becomes too much, only that is kept: then everything the
 * acknowledgement honours may have changed, and is told of once. The states of tasks are not made up; they can be asked.
 */
export class EarlyNotifications {
  #held: Message[] | null = [];
  #bytes = 0;

  add(message: Message): void {
    if (this.#held === null) return;
    this.#bytes += message.bytes.length;
    if (this.#held.length >= MAX_COUNT || this.#bytes > MAX_BYTES) this.#held = null;
    else this.#held.push(message);
  }

  /** What is to be sent after this acknowledgement. */
  after(acknowledgement: Message): readonly Message[] {
    return this.#held ?? allOf(acknowledgement);
  }
}

function allOf(acknowledgement: Message): Message[] {
  const honoured = parseObject(acknowledgement.body.toString())?.['notifications'] as
    | Record<string, unknown>
    | undefined;
  const all: Message[] = [];
  for (const [flag, method] of LIST_FLAGS) {
    if (honoured?.[flag] === true) all.push(notification(method, null, 'stateless'));
  }
  for (const uri of honouredBy(acknowledgement).uris) {
    all.push(notification('notifications/resources/updated', JSON.stringify({ uri }), 'stateless'));
  }
  return all;
}
