import { hash } from 'node:crypto';
import type { RequestContext } from '../http/listener/request-context.ts';
import type { RouteTable } from '../http/listener/route-table.ts';
import { FORM_PAGE_HEADERS, formPage, PAGE_HEADERS, PAGE_TYPE, plainPage } from '../http/plain-page.ts';
import { ANONYMOUS, mayUse, type Principal } from '../model/client-profile.ts';
import type { Logins, UserLogins } from '../model/credential-ports.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { isLoopbackHost } from '../model/host-address.ts';
import type { Authenticator } from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import { authOf, type Server, takesLogin } from '../model/server.ts';

const CALLBACK = '/oauth/callback';
const CLIENT = '/oauth/client.json';
const LOGIN = '/oauth/login/';
const LOGIN_SECONDS = 600;
const MAX_FORM_BYTES = 4_096;

interface LoginPagesDeps {
  readonly logins: Logins;
  readonly credentials: {
    connectedAt(owner: { readonly server: string; readonly principal: string | null }): number | null;
  };
  readonly authenticator: Authenticator;
  readonly random: Random;
  /** Returns the current desired state. */
  readonly state: () => Pick<DesiredState, 'servers' | 'agents' | 'listen' | 'unknownCallers'>;
  /**
   * Opens a listener for these pages alone and resolves with its origin, or with null if that fails. Null itself if the
   * gateway has listeners; without them the only caller is the program that started this process.
   */
  readonly openListener: ((pages: LoginPages) => Promise<string | null>) | null;
}

/**
 * The pages for users' browsers: where a caller's user starts a login, where authorization servers redirect to, and the
 * client id metadata document. A login belongs to the caller whose key the user enters here and can only finish in the
 * browser that started it, so passing its address to another user gains nothing (proto:D5).
 */
export class LoginPages implements UserLogins {
  readonly #deps: LoginPagesDeps;
  #registered = false;
  /** Origin of the listener for clients, as a browser on this machine reaches it. */
  #origin: string | null = null;
  #own: Promise<string | null> | null = null;
  /** Secret query of the pages on a listener of their own, which other users of this machine can reach; empty otherwise. */
  readonly #query: string;

  constructor(deps: LoginPagesDeps) {
    this.#deps = deps;
    this.#query = deps.openListener === null ? '' : deps.random.hex(16);
  }

  register(routes: RouteTable): void {
    this.#registered = true;
    routes.add(CALLBACK, { GET: (context) => void this.#finish(context) });
    routes.add(CLIENT, { GET: (context) => this.#clientMetadata(context) });
    const begin = {
      GET: (context: RequestContext) => this.#show(context),
      POST: (context: RequestContext) => context.readForm((form) => void this.#begin(context, form)),
    };
    routes.add(`${LOGIN}{name}`, begin, { maxBodyBytes: MAX_FORM_BYTES });
  }

  /** Called when the listener for clients is open. `origin`: null if browsers' way to it is not known. */
  onListening(origin: string | null): void {
    this.#origin = origin;
  }

  /** The redirect URI of logins that end at the gateway; null if browsers cannot reach it. */
  get callback(): string | null {
    const base = this.#deps.state().listen.publicUrl ?? this.#origin;
    return base === null ? null : base + CALLBACK;
  }

  takesUser(name: string): boolean {
    const server = this.#deps.state().servers.get(name);
    return server !== undefined && takesLogin(server);
  }

  async page(name: string, principal: Principal): Promise<string | null> {
    if (this.#refusalOf(name, principal) !== null) return null;
    const base = await this.#base();
    return base === null ? null : `${base}${LOGIN}${name}${this.#query && `?${this.#query}`}`;
  }

  connectedAt(name: string, { id }: Principal): number | null {
    const { state, credentials } = this.#deps;
    const server = state().servers.get(name);
    return server === undefined ? null : credentials.connectedAt({ server: name, principal: ownerFor(server, id) });
  }

  async #base(): Promise<string | null> {
    const { openListener, state } = this.#deps;
    if (openListener === null) return this.#registered ? (state().listen.publicUrl ?? this.#origin) : null;
    this.#own ??= openListener(this);
    const origin = await this.#own;
    if (origin === null) this.#own = null;
    return origin;
  }

  /** Why the caller's user cannot sign in at the server here; null if it can. */
  #refusalOf(name: string, principal: Principal): string | null {
    const { agents, listen, servers } = this.#deps.state();
    const server = servers.get(name);
    if (!server?.enabled || !mayUse(principal, name)) return `There is no server ${name} for this caller.`;
    if (!takesLogin(server)) return `${server.name} takes no login of a user.`;
    if (this.#deps.openListener !== null) return null;
    const own = authOf(server).per === 'principal';
    const shared = `All callers share the login of ${server.name}; the operator signs in with: trunkline login ${server.name}`;
    // A caller without a key, such as an agent of a program, cannot identify itself on the page.
    if (principal.id !== ANONYMOUS.id) return own && agents.has(principal.name) ? null : shared;
    // Callers without a key are all that reach the listener: on loopback its user, otherwise anyone on the network.
    if (!isLoopbackHost(listen.host) || listen.publicUrl !== null)
      return `Callers without a key cannot sign in from other machines; the operator does it with: trunkline login ${server.name}`;
    return own || agents.size === 0 ? null : shared;
  }

  /** Whether callers authenticate with keys. */
  get #keyed(): boolean {
    const { authenticator, openListener, state } = this.#deps;
    return openListener === null && (state().agents.size > 0 || authenticator.authenticate(undefined) === null);
  }

  #show(context: RequestContext): void {
    const elsewhere = this.#nameOfCallback(context);
    if (elsewhere !== null) {
      redirect(context, `${elsewhere}${LOGIN}${context.param}`);
      return;
    }
    const keyed = this.#keyed;
    const name = context.param;
    const own = context.query.startsWith(this.#query);
    // A user without a key must not learn which servers exist.
    const refusal = !own ? FOREIGN : keyed ? null : this.#refusalOf(name, ANONYMOUS);
    if (refusal === null) {
      const whose = !keyed ? EVERYBODY : this.#deps.state().unknownCallers === 'allow' ? OF_KEY_OR_NONE : OF_KEY;
      const text = `The gateway asks for a login at the server ${name}. ${whose} The authorization server of ${name} asks you next.`;
      this.#ask(context, 200, text);
    } else send(context, own ? 404 : 403, NOT_BEGUN, refusal);
  }

  /** Origin of the callback if the browser used another name of this machine: it sends cookies to one name only. */
  #nameOfCallback({ publicOrigin }: RequestContext): string | null {
    const [here, there] = [URL.parse(publicOrigin), URL.parse(this.callback ?? '')];
    if (here === null || there === null || here.port !== there.port || here.hostname === there.hostname) return null;
    return [here, there].every(({ hostname }) => isLoopbackHost(hostname)) ? there.origin : null;
  }

  #ask(context: RequestContext, status: number, text: string): void {
    const page = formPage(`Sign in to ${context.param}`, text, this.#keyed ? 'Key of the agent' : null);
    context.answer(status, PAGE_TYPE, Buffer.from(page), FORM_PAGE_HEADERS);
  }

  async #begin(context: RequestContext, form: URLSearchParams): Promise<void> {
    const { logins, random, state } = this.#deps;
    const refuse = (status: number, text: string) => send(context, status, NOT_BEGUN, text);
    if (!isOwnPage(context, state().listen.publicUrl) || !context.query.startsWith(this.#query))
      return refuse(403, FOREIGN);
    const principal = this.#callerOf(form.get('key') ?? '');
    if (principal === null) return this.#ask(context, 403, NO_AGENT);
    const refusal = this.#refusalOf(context.param, principal);
    if (refusal !== null) return refuse(404, refusal);
    const server = state().servers.get(context.param)!;
    try {
      const base = await this.#redirectUri();
      if (base === null) return refuse(404, 'The gateway does not know its own address; set listen.publicUrl.');
      const secret = random.hex(16);
      const { id, url } = await logins.begin(server, base, ownerFor(server, principal.id), secret);
      redirect(context, url, ['Set-Cookie', cookieOf(cookieName(id, base.startsWith('https:')), secret)]);
    } catch (error) {
      this.#failed(context, error);
    }
  }

  async #redirectUri(): Promise<string | null> {
    return this.#deps.openListener === null ? this.callback : `${await this.#own}${CALLBACK}`;
  }

  /** The caller with this key; null if no agent has it. */
  #callerOf(key: string): Principal | null {
    if (!this.#keyed) return ANONYMOUS;
    const known = this.#deps.authenticator.authenticate(key === '' ? undefined : `Bearer ${key}`);
    return key !== '' && known?.id === ANONYMOUS.id ? null : known;
  }

  /** `state` is 128 random bits that only the browser that started the login was given, and is valid for one answer. */
  async #finish(context: RequestContext): Promise<void> {
    const id = new URLSearchParams(context.query).get('state') ?? '';
    const cookies = (context.header('cookie') ?? '').split(/;\s*/).map((cookie) => cookie.split('='));
    try {
      // Without the `__Host-` prefix, pages of sibling hosts could set the cookie.
      const ours = cookieName(id, (await this.#redirectUri())?.startsWith('https:') === true);
      const secret = cookies.find(([name]) => name === ours)?.[1] ?? null;
      if (secret === SIGNED_IN) return send(context, 200, 'Signed in', 'You can close this page.');
      const { server } = await this.#deps.logins.finish(`http://localhost${CALLBACK}?${context.query}`, secret);
      // For a reload of the page.
      const cookie = secret === null ? [] : ['Set-Cookie', cookieOf(ours, SIGNED_IN)];
      send(context, 200, 'Signed in', `The gateway is signed in to ${server}. You can close this page.`, cookie);
    } catch (error) {
      this.#failed(context, error);
    }
  }

  #failed(context: RequestContext, error: unknown): void {
    const { code, message } = error instanceof GatewayError ? error : { code: null, message: '' };
    if (code === 'NOT_SENT')
      send(context, 503, 'Not yet', `${message}. Reload this page in a few seconds: nothing is lost.`);
    else if (code !== null) send(context, code === 'OVERLOADED' ? 429 : 400, 'The login has failed', message);
    else context.refuse({ status: 500, code: 'internal', message: 'a defect of the gateway; its log has the details' });
  }

  #clientMetadata(context: RequestContext): void {
    const { publicUrl } = this.#deps.state().listen;
    const id = clientMetadataUrl(publicUrl);
    if (id !== null) context.json(200, JSON.stringify(clientMetadata(id, publicUrl!)));
    else context.refuse({ status: 404, code: 'not_found', message: 'listen.publicUrl is not set to an https URL' });
  }
}

/** Replaces the secret in the cookie once the login has finished. */
const SIGNED_IN = 'signed-in';
const NOT_BEGUN = 'The login has not begun';
const FOREIGN = 'The request does not come from the page of the gateway.';
const NO_AGENT = 'No agent has this key. Give the key that the client of the agent sends to the gateway.';
const OF_KEY = 'Give the key of the agent that calls: the login will be for that agent alone.';
const OF_KEY_OR_NONE = `${OF_KEY} Without a key it will be for all callers without one.`;
const EVERYBODY = 'Callers of this gateway have no keys: all of them will use this login.';

/** The client id, which is the URL of the document (SEP-991); null if no authorization server could read it. */
export function clientMetadataUrl(publicUrl: string | null): string | null {
  return publicUrl?.startsWith('https:') === true ? `${publicUrl}${CLIENT}` : null;
}

function clientMetadata(id: string, publicUrl: string): object {
  return {
    client_id: id,
    client_name: 'Trunkline',
    client_uri: publicUrl,
    // On this machine: for the command, and for a gateway on pipes.
    redirect_uris: [`${publicUrl}${CALLBACK}`, 'http://127.0.0.1/callback', `http://127.0.0.1${CALLBACK}`],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'web',
  };
}

/** Prevents a page of another site from starting a login in the user's browser (CSRF). */
function isOwnPage(context: RequestContext, publicUrl: string | null): boolean {
  const site = context.header('sec-fetch-site');
  if (site !== undefined) return site === 'same-origin';
  const origin = context.header('origin');
  return origin === undefined || origin === context.publicOrigin || origin === URL.parse(publicUrl ?? '')?.origin;
}

/** Owner of the credential that the principal's calls carry; null for the one that all callers share. */
function ownerFor(server: Server, principal: string): string | null {
  return authOf(server).per === 'principal' ? principal : null;
}

/** One cookie per login, so that two logins can run at the same time. */
function cookieName(id: string, secure: boolean): string {
  return `${secure ? '__Host-' : ''}trunkline-login-${hash('sha256', id, 'hex').slice(0, 16)}`;
}

function cookieOf(name: string, value: string): string {
  const cookie = `${name}=${value}; Path=/; Max-Age=${LOGIN_SECONDS}; HttpOnly; SameSite=Lax`;
  return name.startsWith('__Host-') ? `${cookie}; Secure` : cookie;
}

function redirect(context: RequestContext, url: string, headers: readonly string[] = []): void {
  send(context, 303, 'Sign in', 'The browser goes on.', ['Location', url, ...headers]);
}

function send(context: RequestContext, status: number, title: string, text: string, headers: readonly string[] = []) {
  context.answer(status, PAGE_TYPE, Buffer.from(plainPage(title, text)), [...headers, ...PAGE_HEADERS]);
}
