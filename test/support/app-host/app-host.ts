import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Browser, chromium, type Frame, type Page } from 'playwright-core';
import { rolldown } from 'rolldown';

const FOLDER = import.meta.dirname;
/** No app of a test reaches further than this machine. */
const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--enable-unsafe-swiftshader',
  '--disable-background-networking',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
];

/** Servers start one after another on a small machine. */
const LIST_MS = 90_000;

/** What the host's page notes of one app. */
export interface ShownApp {
  readonly uri: string;
  readonly contentUri: string;
  readonly initialized: boolean;
  readonly result?: { readonly isError?: boolean; readonly content: readonly unknown[] };
  readonly requests: readonly {
    readonly method: string;
    readonly params: Record<string, unknown>;
    readonly result?: { readonly isError?: boolean };
    readonly error?: string;
  }[];
}

/** A host of MCP Apps in a real Chromium: a page with the official SDK's bridge, apps in sandboxed frames of another origin. */
export class AppHost {
  readonly page: Page;
  readonly origin: string;
  readonly #browser: Browser;
  readonly #site: Server;
  readonly #errors: string[];

  private constructor(browser: Browser, page: Page, site: Server, errors: string[]) {
    this.#browser = browser;
    this.page = page;
    this.#site = site;
    this.#errors = errors;
    this.origin = `http://127.0.0.1:${portOf(site)}`;
  }

  static async start(): Promise<AppHost> {
    const bundle = await rolldown({ input: join(FOLDER, 'host-page.mjs'), platform: 'browser', logLevel: 'silent' });
    const { output } = await bundle.generate({ format: 'esm' });
    await bundle.close();
    const files: Readonly<Record<string, readonly [type: string, content: string]>> = {
      '/': [
        'text/html',
        '<!doctype html><title>Host</title><body><script type="module" src="/host.js"></script></body>',
      ],
      '/host.js': ['text/javascript', output[0].code],
      '/sandbox.html': ['text/html', readFileSync(join(FOLDER, 'sandbox.html'), 'utf8')],
    };
    const site = createServer((request, response) => {
      const file = files[request.url ?? ''];
      response.writeHead(file === undefined ? 404 : 200, { 'content-type': file?.[0] ?? 'text/plain' }).end(file?.[1]);
    });
    await new Promise<void>((done) => site.listen(0, '127.0.0.1', done));
    const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ARGS });
    const page = await browser.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    const host = new AppHost(browser, page, site, errors);
    await page.goto(host.origin);
    return host;
  }

  /** Uncaught errors of the page and of its apps. */
  get errors(): readonly string[] {
    return this.#errors;
  }

  /** Resolves with the names of the tools that the endpoint lists, once it lists some of each of these servers. */
  async connect(url: string, servers: readonly string[]): Promise<string[]> {
    await this.page.evaluate(`connect(${JSON.stringify(url)})`);
    const end = performance.now() + LIST_MS;
    for (;;) {
      const tools = (await this.page.evaluate('listTools()')) as string[];
      const missing = servers.filter((server) => !tools.some((tool) => tool.startsWith(`${server}__`)));
      if (missing.length === 0) return tools;
      if (performance.now() > end) throw new Error(`no tools of ${missing.join(', ')} are listed`);
      await new Promise((done) => setTimeout(done, 250));
    }
  }

  /** Calls the tool and shows its app: resolves when that has been initialised and was given the result. */
  async open(tool: string, input: object = {}): Promise<void> {
    // The same site under another name is another origin.
    const sandbox = `${this.origin.replace('127.0.0.1', 'localhost')}/sandbox.html`;
    const args = [tool, input, sandbox].map((value) => JSON.stringify(value));
    await this.page.evaluate(`openApp(${args.join(', ')})`);
  }

  /** The frame with the tool's app, in its sandbox. */
  frame(tool: string): Frame {
    const frame = this.page.frame({ name: tool })?.childFrames()[0];
    if (frame === undefined) throw new Error(`no app of ${tool} is shown`);
    return frame;
  }

  app(tool: string): Promise<ShownApp> {
    return this.page.evaluate(`apps[${JSON.stringify(tool)}]`) as Promise<ShownApp>;
  }

  async close(): Promise<void> {
    await this.#browser.close();
    this.#site.closeAllConnections();
    await new Promise((done) => this.#site.close(done));
  }
}

function portOf(site: Server): number {
  return (site.address() as AddressInfo).port;
}
