import { whyNoLogin } from '../../credentials/logins.ts';
import { authOf, type Server } from '../../model/server.ts';
import type { SignInView } from '../../model/sign-in.ts';
import type { Components } from '../components.ts';

/** Returns what this gateway knows about signing in at one server. */
export async function signInView(
  server: Server,
  { logins, signIns }: Pick<Components, 'logins' | 'signIns'>,
): Promise<SignInView> {
  const { grant, clientId, scopes, issuer, per, dpop } = authOf(server);
  const reason = whyNoLogin(server);
  const credentials = (await logins.list()).filter((one) => one.server === server.name);
  return {
    server: server.name,
    possible: reason === null,
    reason,
    auth: 'url' in server.transport ? { grant, clientId, scopes, issuer, per, dpop } : null,
    credentials,
    steps: signIns.of(server.name),
  };
}
