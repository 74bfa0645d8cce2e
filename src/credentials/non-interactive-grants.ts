import { readFile } from 'node:fs/promises';
import * as oauth from 'oauth4webapi';
import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import type { AuthSpec } from '../model/credentials.ts';
import type { Authority } from './discovery.ts';
import { loginRefused } from './login-errors.ts';
import { basic, through } from './token-endpoint.ts';

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:';

interface Grant {
  readonly grant: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export async function subjectToken({ subjectToken: given, subjectTokenFile: file }: AuthSpec): Promise<string> {
  if (file !== null) return (await readFile(file, 'utf8')).trim();
  return given?.reveal() ?? '';
}

/** `subject`: the token to exchange, or the assertion; unused for `client_credentials`. */
export function nonInteractiveGrant(kind: AuthSpec['grant'], subject: string): Grant {
  switch (kind) {
    case 'token_exchange':
      return {
        grant: TOKEN_EXCHANGE,
        parameters: { subject_token: subject, subject_token_type: `${TOKEN_TYPE}access_token` },
      };
    case 'enterprise_managed':
    case 'workload_identity':
      return { grant: JWT_BEARER, parameters: { assertion: subject } };
    default:
      return { grant: 'client_credentials', parameters: {} };
  }
}

/** Exchanges the user's id token at the identity provider for an assertion that the authorization server accepts (ID-JAG). */
export async function idJag(
  fetch: GuardedFetch,
  auth: AuthSpec,
  authority: Authority,
  idToken: string,
): Promise<string> {
  const { idpTokenEndpoint, idpClientId, idpClientSecret } = auth;
  if (idpTokenEndpoint === null || idpClientId === null) {
    throw loginRefused('auth.idpTokenEndpoint and auth.idpClientId are needed for enterprise_managed');
  }
  const metadata = { issuer: new URL(idpTokenEndpoint).origin, token_endpoint: idpTokenEndpoint };
  const self = { client_id: idpClientId };
  const secret = idpClientSecret?.reveal();
  const parameters = {
    requested_token_type: `${TOKEN_TYPE}id-jag`,
    subject_token: idToken,
    subject_token_type: `${TOKEN_TYPE}id_token`,
    audience: authority.metadata.issuer,
    ...(authority.resource === null ? {} : { resource: authority.resource }),
  };
  const authentication = secret === undefined ? oauth.None() : basic(secret);
  const response = await oauth.genericTokenEndpointRequest(
    metadata,
    self,
    authentication,
    TOKEN_EXCHANGE,
    parameters,
    through(fetch),
  );
  const recognizedTokenTypes = { n_a: () => {} };
  return (await oauth.processGenericTokenEndpointResponse(metadata, self, response, { recognizedTokenTypes }))
    .access_token;
}
