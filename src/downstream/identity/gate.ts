import type { RequestContext } from '../../http/listener/request-context.ts';
import type { Principal } from '../../model/client-profile.ts';
import { AGGREGATE, type Endpoint } from '../../model/exchange.ts';
import type { Authenticator } from '../../model/ports.ts';
import type { Endpoints } from '../endpoints/endpoints.ts';
import { sendError } from '../endpoints/send.ts';

/** An authenticated caller at an endpoint that it may use. */
export interface Admitted {
  readonly principal: Principal;
  readonly endpoint: Endpoint;
}

/** Authenticates and authorizes a request from its head, before its body is read. */
export class Gate {
  readonly #authenticator: Authenticator;
  readonly #endpoints: Endpoints;

  constructor(authenticator: Authenticator, endpoints: Endpoints) {
    this.#authenticator = authenticator;
    this.#endpoints = endpoints;
  }

  /** `server` is null for the aggregate. Returns null after it has answered the request with 401 or 404. */
  admit(context: RequestContext, server: string | null): Admitted | null {
    const principal = this.#authenticator.authenticate(context.headers.authorization);
    if (principal === null) {
      sendError(context, 401, unauthorized(context.headers.authorization), '', CHALLENGE);
      return null;
    }
    const endpoint = server === null ? AGGREGATE : this.#endpoints.server(server, principal);
    if (endpoint !== null) return { principal, endpoint };
    sendError(
      context,
      404,
      'Not found: no server of this name for this caller; /mcp has the tools of those that it may use',
    );
    return null;
  }
}

/** Describes what the client sent; reveals nothing about existing keys. */
function unauthorized(authorization: string | undefined): string {
  const form = 'send the key of an agent as "Authorization: Bearer <key>"';
  if (authorization === undefined) return `Unauthorized: no Authorization header; ${form}`;
  if (!/^bearer /i.test(authorization)) return `Unauthorized: the Authorization header is no Bearer token; ${form}`;
  return 'Unauthorized: this key is not known here; take one of "agents" in the configuration of the gateway';
}

const CHALLENGE = ['www-authenticate', 'Bearer realm="trunkline"'];
