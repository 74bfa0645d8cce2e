import type { Server as HttpServer, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { nodeHttp } from '../../http/node-http.ts';
import { PAGE_HEADERS, PAGE_TYPE, plainPage } from '../../http/plain-page.ts';
import { type CredentialView, LOGIN_MS, type StartedLogin } from '../../model/credentials.ts';
import { openBrowser } from '../access/open-browser.ts';
import { type CommandInput, print } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode, usage } from '../exit-code.ts';
import { connectionLine } from './connections.ts';
import { type CredentialAccess, credentialAccess } from './credential-access.ts';

export interface LoginInput extends CommandInput {
  /** undefined if `finish` is given. */
  readonly server: string | undefined;
  readonly device: boolean;
  readonly viaGateway: boolean;
  readonly browser: boolean;
  readonly callbackPort: number;
  readonly finish: string | undefined;
  readonly wait: boolean;
  readonly principal: string | null;
}

/**
 * `trunkline login <server>`. The browser returns to a listener of this command on the loopback address. A user whose browser
 * runs on another machine pastes the redirect address instead; the authorization server sees no difference.
 */
export async function login(input: LoginInput): Promise<ExitCode> {
  const { server, finish } = input;
  if ((server === undefined) === (finish === undefined)) {
    const words = 'name either the server (trunkline status lists them) or, with --finish, an address';
    throw usage(words);
  }
  const access = await credentialAccess(input);
  try {
    const credential = finish === undefined ? await signIn(input, server!, access) : await access.finish(finish);
    if (credential === null) return EXIT.ok;
    const text = () => `signed in\n  ${connectionLine(credential, 0, Date.now())}\n`;
    print(input, { credential }, text);
    return credential.state === 'connected' ? EXIT.ok : EXIT.authRequired;
  } finally {
    await access.close();
  }
}

/** Resolves with null with `--no-wait`. */
async function signIn(input: LoginInput, server: string, access: CredentialAccess): Promise<CredentialView | null> {
  const { terminal, wait } = input;
  if (input.device) {
    const started = await access.begin(server, null, input.principal);
    show(input, started, `Open ${started.url} in any browser and enter the code ${started.userCode}\n`);
    return wait ? access.waitForEnd(started.id) : null;
  }
  if (input.viaGateway) {
    const started = await access.begin(server, undefined, input.principal);
    show(input, started, `Open this address in a browser to sign in to ${server}:\n\n  ${started.url}\n\n`);
    return wait ? access.waitForEnd(started.id) : null;
  }
  const listener = await listen(input.callbackPort);
  try {
    const redirectUri = `http://127.0.0.1:${(listener.address() as AddressInfo).port}${PATH}`;
    const started = await access.begin(server, redirectUri, input.principal);
    const opened = wait && input.browser && openBrowser(started.url, terminal.env);
    const what = opened ? 'A browser opens' : 'Open this address in a browser';
    show(input, started, `${what} to sign in to ${server}:\n\n  ${started.url}\n\n`);
    if (!wait) return null;
    const { url, respond } = await redirected(input, listener, started);
    try {
      const credential = await access.finish(url);
      await respond(200, `You are signed in to ${server}. You can close this page.`);
      return credential;
    } catch (error) {
      await respond(400, (error as Error).message);
      throw error;
    }
  } finally {
    listener.closeAllConnections();
    listener.close();
  }
}

function show(input: LoginInput, started: StartedLogin, text: string): void {
  const { terminal, flags, wait } = input;
  if (!wait) print(input, started, () => text);
  // With a wait, standard output carries the result only.
  else terminal.err(flags.json === true ? `${JSON.stringify(started)}\n` : text);
}

const PATH = '/callback';

async function listen(port: number): Promise<HttpServer> {
  const listener = nodeHttp.createServer();
  await new Promise<void>((resolve, reject) => {
    listener.once('error', (cause) => {
      reject(usage(`port ${port} of 127.0.0.1 cannot be used (${cause.message})`, { cause }));
    });
    listener.listen(port, '127.0.0.1', resolve);
  });
  return listener;
}

/** The redirect address that the browser requested or the user pasted; `respond` shows the browser the result. */
interface Redirected {
  readonly url: string;
  respond(status: number, text: string): Promise<void>;
}

function redirected({ terminal }: LoginInput, listener: HttpServer, started: StartedLogin): Promise<Redirected> {
  const over = new AbortController();
  const state = new URL(started.url).searchParams.get('state');
  const browser = new Promise<Redirected>((resolve) => {
    listener.on('request', ({ method, url: target = '/' }, response) => {
      const url = new URL(target, `http://127.0.0.1:${(listener.address() as AddressInfo).port}`);
      const respond = (status: number, text: string) => answer(response, status, text);
      if (method !== 'GET' || url.pathname !== PATH) void respond(404, 'There is nothing here.');
      // Any page in the browser can send a request here; it must not end the login.
      else if (url.searchParams.get('state') !== state)
        void respond(400, 'This is not the login that trunkline waits for.');
      else resolve({ url: url.href, respond });
    });
  });
  const pasted = new Promise<Redirected>((resolve, reject) => {
    const question = {
      id: 'pasted',
      description: 'If the browser cannot come back to this machine, paste the address that it shows then',
      password: true,
      signal: over.signal,
    };
    terminal.ask?.(question).then(
      (text) => {
        const url = text?.trim() ?? '';
        if (URL.canParse(url)) resolve({ url, respond: async () => {} });
        else if (url !== '') reject(usage('what was pasted is not an address'));
      },
      () => {},
    );
  });
  const late = new Promise<never>((_resolve, reject) => {
    const words = 'the login was not finished within ten minutes; begin it again: trunkline login <server>';
    const timer = setTimeout(() => reject(new CommandError(EXIT.authRequired, words)), LOGIN_MS);
    over.signal.addEventListener('abort', () => clearTimeout(timer));
  });
  return Promise.race([browser, pasted, late]).finally(() => over.abort());
}

function answer(response: ServerResponse, status: number, text: string): Promise<void> {
  response.writeHead(status, ['Content-Type', PAGE_TYPE, 'Connection', 'close', ...PAGE_HEADERS]);
  // The browser may have disconnected; the login has ended in any case.
  return new Promise((resolve) => response.once('close', resolve).end(plainPage('Trunkline', text)));
}
