import { listCredentials, type StartedLogin } from '../api/operations.ts';
import { onLive, stopAll } from '../live.ts';

/** So long a person has for it. */
const LOGIN_MS = 600_000;

/** Resolves when the login has left a credential, also while no page shows it; rejects with why it has not. */
export function signedIn({ id, server, expiresAt }: StartedLogin, principal: string | null): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const late = setTimeout(
    () => reject(new Error(`The sign-in to ${server} was not completed within ten minutes`)),
    LOGIN_MS,
  );
  // While this tab was in the background, the end may have been told to nobody.
  const look = async (): Promise<void> => {
    const { credentials } = await listCredentials().catch(() => ({ credentials: [] }));
    const isThere = credentials.some(
      (one) =>
        one.server === server &&
        (principal === null || one.principal === principal) &&
        one.state === 'connected' &&
        one.changedAt >= expiresAt - LOGIN_MS,
    );
    if (isThere) resolve();
  };
  const stop = stopAll(
    onLive('hello', () => void look()),
    onLive('events', ({ event }) => {
      if (event.type === 'gap') void look();
      if (event.type !== 'login_ended' || event.login !== id) return;
      if (event.reason === null) resolve();
      else reject(new Error(event.reason));
    }),
  );
  return promise.finally(() => {
    clearTimeout(late);
    stop();
  });
}
