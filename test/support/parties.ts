import type { Json } from './raw-http.ts';
import type { WireClient } from './wire-client.ts';

export const USERS = ['ada', 'bob'] as const;
export type User = (typeof USERS)[number];
export const KEYS: Record<User, string> = { ada: 'key-of-ada-0123456789', bob: 'key-of-bob-0123456789' };
export const AGENTS = Object.fromEntries(USERS.map((user) => [user, { key: KEYS[user] }]));

/** One client of a user, and everything that it was sent. */
export interface Party {
  readonly user: User;
  readonly client: WireClient;
  readonly received: string[];
}

/** A client of the user with an open stream. `by`: with the user's own key, or with one key and the user's name in a header. */
export async function partyOf(user: User, client: WireClient): Promise<Party> {
  const received: string[] = [];
  const stateful = client.era === 'stateful';
  if (stateful) received.push(JSON.stringify(await client.initialize()));
  const wanted = { toolsListChanged: true, resourceSubscriptions: ['test://mine'] };
  const stream = stateful ? await client.listen() : await client.listening(wanted);
  const read = async (): Promise<void> => {
    for (let message: Json; (message = await stream.message()) !== null; ) received.push(JSON.stringify(message));
  };
  void read().catch(() => {});
  return { user, client, received };
}

export function headersOf(user: User, by: 'token' | 'header'): Record<string, string> {
  if (by === 'token') return { authorization: `Bearer ${KEYS[user]}` };
  return { authorization: `Bearer ${KEYS.ada}`, 'x-team': user };
}

/** A small generator, with the same numbers for the same seed. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
