import type { Message } from '../../model/message.ts';
import { bodyString } from '../../protocol/body.ts';
import { LIST_METHODS } from '../../protocol/methods.ts';
import { isWithin } from '../subscriptions/wanted.ts';
import type { Subject } from './cache-key.ts';

/** Answers of one method, and which of them. */
export interface Concern {
  readonly method: string;
  readonly of: (subject: Subject) => boolean;
}

const READ = 'resources/read';
const ALL = (): boolean => true;
const EVERYTHING: readonly Concern[] = [...LIST_METHODS.map(({ method }) => method), READ].map((method) => ({
  method,
  of: ALL,
}));

/**
 * The answers that a notification makes invalid (C6): the lists it names; the resource, and what it is a part of. With
 * the list of resources goes what was read, because that may be gone. Null stands for anything that could have been
 * said and was not heard.
 */
export function concernedBy(notification: Message | null): readonly Concern[] {
  if (notification === null) return EVERYTHING;
  if (notification.method !== 'notifications/resources/updated') {
    const lists = LIST_METHODS.filter(({ changed }) => changed === notification.method);
    const reads = lists.some(({ capability }) => capability === 'resources') ? [READ] : [];
    return [...lists.map(({ method }) => method), ...reads].map((method) => ({ method, of: ALL }));
  }
  const updated = bodyString(notification, 'uri');
  if (updated === null) return [{ method: READ, of: ALL }];
  return [{ method: READ, of: ({ uri }) => uri !== null && isWithin(updated, uri) }];
}
