import type { ConditionName } from '../model/conditions.ts';
import type { ServerChangeListener } from '../model/ports.ts';
import type { WatchedList } from '../model/watched-list.ts';
import { Journal } from './journal.ts';

const LIMITS = { maxEntries: 500, maxBytes: 256 * 1024, maxTotalBytes: 8 * 1024 * 1024 };

/** Conditions that need an operator: one begins with a reason and ends with null. `server`: null for the gateway itself. */
export interface ConditionEvents {
  condition(name: ConditionName, server: string | null, reason: string | null): void;
}

/** `reason`: why the login produced no credential; null if it did. */
export interface LoginEnd {
  readonly principal: string | null;
  readonly login: string;
  readonly reason: string | null;
}

/** A journal of changes of servers, one line of JSON per step, in order. Callers redact the reasons. */
export function newServerEvents(
  run: string,
  wall: () => number,
  observer?: Pick<ServerChangeListener, 'recovery' | 'listItemInvalid' | 'loginNeeded'> & ConditionEvents,
): ServerChangeListener &
  ConditionEvents & {
    readonly journal: Journal;
    readonly changed: (list: WatchedList, server?: string) => void;
    readonly loginEnded: (server: string, ended: LoginEnd) => void;
  } {
  const journal = new Journal(run, LIMITS);
  const push = (server: string, type: string, fields: object = {}, at = wall()): void =>
    journal.push(server, JSON.stringify({ time: new Date(at).toISOString(), type, server, ...fields }));
  return {
    journal,
    added: (server) => push(server, 'added'),
    stateChanged: (server, { from, to, reason, failure, challenge, at }) =>
      push(server, 'state', { from, to, reason, failure, challenge }, at),
    healthChanged: (server, reason) =>
      push(server, 'health', { health: reason === null ? 'healthy' : 'unhealthy', reason }),
    replaced: (server) => push(server, 'replaced'),
    recovery(server, step, reason) {
      push(server, 'recovery', { step, reason });
      observer?.recovery(server, step, reason);
    },
    listItemInvalid(server, invalid) {
      push(server, 'list_item_invalid', invalid);
      observer?.listItemInvalid(server, invalid);
    },
    loginNeeded(server, principal, advice) {
      push(server, 'login', { principal, needed: advice !== null, advice });
      observer?.loginNeeded(server, principal, advice);
    },
    loginEnded: (server, ended) => push(server, 'login_ended', ended),
    removed: (server) => push(server, 'removed'),
    changed: (list, server = '') => push(server, 'changed', { list }),
    condition(condition, server, reason) {
      push(server ?? '', 'condition', { condition, holds: reason !== null, reason });
      observer?.condition(condition, server, reason);
    },
  };
}
