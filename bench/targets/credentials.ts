import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serverUrl } from './direct.ts';
import type { Running, Target } from './target.ts';
import { startTrunkline } from './trunkline.ts';

const TOKEN = 'a-token-as-long-as-those-of-many-authorization-servers';

export const STATIC_HEADER = 'static header';
export const SIGNED_IN = 'OAuth token';

/** The same gateway and server: with the credential in the definition, and with one that an authorization server gave. */
export const credentials: readonly Target[] = [
  target(STATIC_HEADER, (url) =>
    startTrunkline({ up: { type: 'http', url, headers: { Authorization: `Bearer ${TOKEN}` } } }, 'server'),
  ),
  target(SIGNED_IN, startSignedIn),
];

function target(name: string, start: (url: string) => Promise<Running>): Target {
  return {
    name,
    named: true,
    maxSessions: Number.POSITIVE_INFINITY,
    canServe: (behind) => behind === 'stateful',
    start: (scene, behind) => start(serverUrl(scene, behind)),
  };
}

async function startSignedIn(url: string): Promise<Running> {
  let given = 0;
  const authority = createServer((request, response) => {
    const issuer = `http://${request.headers.host}`;
    const isToken = request.url === '/token';
    if (isToken) given++;
    const answer = isToken
      ? { access_token: TOKEN, token_type: 'Bearer', expires_in: 86_400 }
      : { issuer, token_endpoint: `${issuer}/token` };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  await new Promise<void>((open) => authority.listen(0, '127.0.0.1', open));
  const issuer = `http://127.0.0.1:${(authority.address() as AddressInfo).port}`;
  const auth = { grant: 'client_credentials', clientId: 'bench', clientSecret: 'bench', issuer };
  const running = await startTrunkline({ up: { type: 'http', url, auth } }, 'server');
  return {
    ...running,
    async stop() {
      await running.stop();
      authority.close();
      if (given !== 1) throw new Error(`the gateway requested ${given} tokens instead of one`);
    },
  };
}
