import { isLoginTool } from '../catalog/login-catalog.ts';
import { pause } from '../model/clock.ts';
import type { UserLogins } from '../model/credential-ports.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Random } from '../model/random.ts';
import { bodyField } from '../protocol/body.ts';
import { declares } from '../protocol/client-capabilities.ts';
import { cancellation, notification, request } from '../protocol/compose.ts';
import { stringValue } from '../protocol/fields.ts';
import { takesInput } from '../protocol/stateless/input-required.ts';
import type { ListParts } from './list-parts.ts';
import { ownAnswer } from './own-results.ts';
import { namedParam } from './params.ts';

/** A login at an authorization server's page is valid for as long. */
const USER_MS = 600_000;
const LOOK_MS = 250;
/** How long to wait for the server's start to begin, on another node too. */
const BEGIN_MS = 5_000;
const ASK = 'elicitation/create';
const URL_MODE = request(ASK, '0', '{"mode":"url"}', 'stateful');

interface LoginRequestsDeps extends ListParts {
  readonly logins: UserLogins;
  readonly random: Random;
}

/**
 * Asks users to sign in at servers, by elicitation of a URL if the client supports it. A request that was refused because the
 * server needs credentials is repeated after the user has signed in.
 */
export class LoginRequests {
  readonly #deps: LoginRequestsDeps;
  /** Open elicitations by server and session: one for all waiting calls of a session. */
  readonly #questions = new Map<string, LoginQuestion>();
  #draining = false;

  constructor(deps: LoginRequestsDeps) {
    this.#deps = deps;
  }

  /** The gateway stops: refuses calls that wait for a user. */
  drain(): void {
    this.#draining = true;
  }

  /** `refused`: an outcome with AUTH_REQUIRED; returned if the user does not sign in. */
  async afterLogin(
    exchange: Exchange,
    endpoint: Endpoint,
    refused: Extract<Outcome, { kind: 'failure' }>,
    again: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const server = refused.error.data.server ?? endpoint.server;
    const isTool = this.#callsLoginTool(exchange, endpoint, server);
    // Another login does not help if a server forbids the call to its user; such a refusal has no login advice.
    const helps = refused.error.outcome === 'REFUSED' && refused.error.forCallers.includes(`trunkline login ${server}`);
    if (!helps || !(await this.#signedIn(exchange, server))) return refused;
    if (!isTool) return again();
    const text = JSON.stringify(`Signed in to ${server}. Its tools are listed now.`);
    return ownAnswer(exchange.request.era, `"content":[{"type":"text","text":${text}}],"isError":false`);
  }

  #callsLoginTool({ request, client }: Exchange, endpoint: Endpoint, server: string): boolean {
    const name = request.method === 'tools/call' ? namedParam(request, 'name') : null;
    if (name === null || name instanceof GatewayError) return false;
    const { catalogs, upstreams } = this.#deps;
    if (endpoint.kind === 'server') return isLoginTool(upstreams.knownCatalog(server, client), name.value);
    const offered = catalogs.of(client);
    const own = offered.tool(name.value)?.item.key;
    return own !== undefined && isLoginTool(offered.catalogOf(server), own);
  }

  async #signedIn(exchange: Exchange, server: string): Promise<boolean> {
    const { logins, clock, desired, upstreams } = this.#deps;
    const { client } = exchange;
    const { principal } = client;
    if (!takesInput(exchange.request.method) || !declares(client.capabilities, URL_MODE)) return false;
    const before = logins.connectedAt(server, principal);
    const page = await logins.page(server, principal);
    if (page === null) return false;
    // Stateless clients cannot be distinguished, so each of their calls asks for itself.
    const key = `${server} ${client.sessionId ?? exchange.id}`;
    const end = clock.now() + Math.min(USER_MS, desired.state.maxTimeoutMs);
    // A definition that no longer needs a login may let the call through.
    const over = () => !logins.takesUser(server) || ![null, before].includes(logins.connectedAt(server, principal));
    let own: LoginQuestion | null = null;
    let question: LoginQuestion | undefined;
    try {
      while (!over()) {
        if (question === undefined || question.lost) question = this.#questions.get(key);
        if (question === undefined) {
          question = own = new LoginQuestion(exchange, server, page, this.#deps.random);
          this.#questions.set(key, own);
        }
        if (question.declined || this.#draining || clock.now() >= end || exchange.cancelled !== null) return false;
        await pause(clock, LOOK_MS);
      }
      own?.done();
    } finally {
      if (own !== null) this.#questions.delete(key);
      if (own?.declined === false) own.lost = true;
    }
    const begun = clock.now() + BEGIN_MS;
    while (upstreams.state(server, client) === 'auth_required' && clock.now() < begun) await pause(clock, LOOK_MS);
    // The time that the user took does not count for the call.
    exchange.searchStartedAt = exchange.triedMs = undefined;
    return exchange.cancelled === null;
  }
}

/** One elicitation that asks a client to open the login page. */
class LoginQuestion {
  /** The user refused, or the client cannot be asked. */
  declined = false;
  /** The call that asked has ended: another waiting call asks again. */
  lost = false;
  #open = true;
  readonly #exchange: Exchange;
  readonly #id: string;

  constructor(exchange: Exchange, server: string, url: string, random: Random) {
    this.#exchange = exchange;
    this.#id = JSON.stringify(`login-${random.hex(16)}`);
    const { name, id } = exchange.client.principal;
    const who = id === `agent:${name}` ? ` with the key of the agent ${name}` : '';
    const message = `${server} asks for a login. Sign in on this page${who}; the call goes on then.`;
    const params = `{"mode":"url","elicitationId":${this.#id},"url":${JSON.stringify(url)},"message":${JSON.stringify(message)}}`;
    exchange.ask(request(ASK, this.#id, params, 'stateful')).then(
      (answer) => {
        this.#open = false;
        this.declined = actionOf(answer) !== 'accept';
      },
      () => {
        this.#open = false;
        this.declined = exchange.cancelled === null;
      },
    );
  }

  /** The user has signed in: completes the elicitation, or cancels it if the client has not answered. */
  done(): void {
    const end = this.#open
      ? cancellation(this.#id, 'the user has signed in', 'stateful')
      : notification('notifications/elicitation/complete', `{"elicitationId":${this.#id}}`, 'stateful');
    this.#exchange.emit(end);
  }
}

function actionOf(answer: Message): string | null {
  return answer.kind === 'result' ? stringValue(answer.bytes, bodyField(answer, 'action')) : null;
}
