import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { PARENT_PROXY_SCRIPT } from '../../../../src/model/parent-proxy.ts';
import { openApp, type Tool } from '../../api/operations.ts';
import { Code } from '../../parts/code.tsx';
import { Failure, Loading } from '../../parts/notes.tsx';
import { shownTheme } from '../../theme.ts';
import { definitionOf } from '../tools/catalog.ts';
import { isObject, type JsonObject } from './exact-json.ts';
import { askOnce, type Caller, type PlayedRun, type Wire } from './play.ts';

interface AppViewProps {
  readonly caller: Caller;
  /** All that the caller's endpoint has: an app may call those of them that are made for apps. */
  readonly tools: readonly Tool[];
  readonly tool: Tool;
  readonly run: PlayedRun;
}

interface UiMeta {
  readonly resourceUri?: string;
  readonly visibility?: readonly string[];
}

const HEIGHTS = { least: 80, most: 1_200, first: 320 };
const LINES_KEPT = 50;
const LINE_CHARS = 1_000;
/** Further requests wait, up to so many. */
const MOST_AT_ONCE = 2;
const MOST_WAITING = 32;
/** Of addresses at the aggregate that name their server. */
const NAMED_SPACES = ['trunkline://', 'ui://trunkline/', 'skill://trunkline/'];

/** The aggregate gives an app such a parent; at the endpoint of one server its document is the server's own. */
const PARENT = `<script>((real) => {
  const post = (...message) => real.postMessage(...message);
  ${PARENT_PROXY_SCRIPT}
})(window.parent)</script>`;
/** What is before the root element; always matches. */
const PROLOGUE = /^(?:\s|<!--[\s\S]*?-->)*(?:<!doctype[^>]*>)?/i;

/** Where the tool's app is; null for a tool without one. */
export function appUriOf(tool: Tool, caller: Caller): string | null {
  const own = uiOf(tool).resourceUri ?? (definitionOf(tool)._meta?.['ui/resourceUri'] as string | undefined);
  if (own === undefined || !own.startsWith('ui://')) return null;
  return caller.server === null ? `ui://trunkline/${tool.server}/${own.slice('ui://'.length)}` : own;
}

function uiOf(tool: Tool): UiMeta {
  const ui = definitionOf(tool)._meta?.['ui'];
  return isObject(ui) ? (ui as UiMeta) : {};
}

/** The MCP App of a tool, in a frame whose origin shares nothing with the console, with the tool's arguments and answer. */
export function AppView(props: AppViewProps) {
  const { caller, tool, run } = props;
  const frame = useRef<HTMLIFrameElement>(null);
  const path = useSignal<string | null>(null);
  const failed = useSignal<Error | null>(null);
  const height = useSignal(HEIGHTS.first);
  const link = useSignal<string | null>(null);
  const lines = useSignal<readonly string[]>([]);
  const uri = appUriOf(tool, caller)!;

  useEffect(() => {
    path.value = null;
    failed.value = null;
    const gone = new AbortController();
    documentOf(caller, uri, gone.signal).then(
      (found) => {
        if (!gone.signal.aborted) path.value = found;
      },
      (error: Error) => {
        if (!gone.signal.aborted) failed.value = error;
      },
    );
    const bridge = new Bridge(props, {
      gone: gone.signal,
      post: (message) => frame.current?.contentWindow?.postMessage(message, '*'),
      height,
      link,
      lines,
    });
    const listen = (event: MessageEvent): void => {
      if (event.source !== null && event.source === frame.current?.contentWindow) bridge.take(event.data);
    };
    addEventListener('message', listen);
    return () => {
      removeEventListener('message', listen);
      gone.abort();
    };
  }, [run]);

  if (failed.value !== null) return <Failure what="The app could not be read" error={failed.value} />;
  return (
    <section class="panel" aria-label="App">
      <h2>The app of this tool</h2>
      {path.value === null ? (
        <Loading what="the app" />
      ) : (
        <iframe
          ref={frame}
          class="app-frame"
          title={`App of ${tool.name}`}
          sandbox="allow-scripts"
          src={path.value}
          style={{ height: `${height.value}px` }}
        />
      )}
      {link.value === null ? null : (
        <p class="toolbar" role="alert">
          The app wants to open <code>{link.value}</code>
          <a href={link.value} target="_blank" rel="noreferrer noopener" onClick={() => (link.value = null)}>
            Open it
          </a>
          <button type="button" onClick={() => (link.value = null)}>
            No
          </button>
        </p>
      )}
      {lines.value.length === 0 ? null : (
        <details>
          <summary>The app and the console: {lines.value.length} messages</summary>
          <Code>{lines.value.join('\n')}</Code>
        </details>
      )}
    </section>
  );
}

interface AppContents {
  readonly text?: string;
  readonly blob?: string;
  readonly _meta?: { readonly ui?: { readonly csp?: JsonObject } };
}

/** Gives the document of the app an address. */
async function documentOf(caller: Caller, uri: string, gone: AbortSignal): Promise<string> {
  const { contents } = (await askOnce({ ...caller, method: 'resources/read', params: { uri } }, gone)) as {
    readonly contents?: readonly AppContents[];
  };
  const [first] = contents ?? [];
  const html = first?.text ?? (first?.blob === undefined ? undefined : decoded(first.blob));
  if (html === undefined) throw new Error(`${uri} has no document`);
  const csp = first?._meta?.ui?.csp;
  const sources: Record<string, readonly string[]> = {};
  for (const name of ['connectDomains', 'resourceDomains', 'frameDomains'])
    if (Array.isArray(csp?.[name]))
      sources[name] = (csp[name] as unknown[]).filter((one) => typeof one === 'string') as string[];
  const shown = caller.server === null ? html : html.replace(PROLOGUE, (before) => `${before}${PARENT}`);
  return (await openApp({ body: { html: shown, csp: sources } })).path;
}

function decoded(base64: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)));
}

interface BridgeEnds {
  /** Aborted when the view goes away. */
  readonly gone: AbortSignal;
  readonly post: (message: object) => void;
  readonly height: Signal<number>;
  /** What the app wants to open. */
  readonly link: Signal<string | null>;
  /** What the app has sent. */
  readonly lines: Signal<readonly string[]>;
}

/**
 * The host's side of ext-apps. It refuses what it does not know: an app calls tools of its own server that are made for
 * apps and reads resources of its own server, a few at once, and gets at nothing of the console.
 */
class Bridge {
  readonly #props: AppViewProps;
  readonly #ends: BridgeEnds;
  #underWay = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(props: AppViewProps, ends: BridgeEnds) {
    this.#props = props;
    this.#ends = ends;
  }

  take(message: unknown): void {
    if (!isObject(message) || message['jsonrpc'] !== '2.0' || typeof message['method'] !== 'string') return;
    const { id, method, params = {} } = message as unknown as Wire & { readonly method: string };
    const { lines } = this.#ends;
    const line = `${method} ${JSON.stringify(params).slice(0, LINE_CHARS)}`;
    lines.value = [...lines.value.slice(-LINES_KEPT + 1), line];
    if (id === undefined) this.#notified(method, params);
    else
      this.#answer(method, params).then(
        (result) => this.#ends.post({ jsonrpc: '2.0', id, result }),
        (error: Error) => {
          const code = error instanceof Refused ? error.code : -32603;
          this.#ends.post({ jsonrpc: '2.0', id, error: { code, message: error.message } });
        },
      );
  }

  #notified(method: string, params: JsonObject): void {
    if (method === 'ui/notifications/size-changed' && typeof params['height'] === 'number')
      this.#ends.height.value = Math.max(HEIGHTS.least, Math.min(HEIGHTS.most, params['height']));
    if (method !== 'ui/notifications/initialized') return;
    const { run } = this.#props;
    const tell = (name: string, value: unknown): void =>
      this.#ends.post({ jsonrpc: '2.0', method: `ui/notifications/${name}`, params: value });
    tell('tool-input', { arguments: run.request.params['arguments'] ?? {} });
    if (run.answer.value?.result === undefined) tell('tool-cancelled', { reason: 'the call has no result' });
    else tell('tool-result', run.answer.value.result);
  }

  async #answer(method: string, params: JsonObject): Promise<JsonObject> {
    switch (method) {
      case 'ping':
        return {};
      case 'ui/initialize':
        return this.#introduction(params);
      case 'tools/call':
        if (!this.#isForApps(params['name']))
          throw new Refused(-32602, `no tool for apps is named ${String(params['name'])}`);
        return this.#ask(method, params);
      case 'resources/read':
        if (!this.#isOwn(params['uri'])) throw new Refused(-32602, 'an app reads resources of its own server only');
        return this.#ask(method, params);
      case 'ui/open-link':
        if (!/^https?:\/\//i.test(String(params['url']))) throw new Refused(-32602, 'only web pages are opened');
        this.#ends.link.value = String(params['url']);
        return {};
      case 'ui/update-model-context':
      case 'ui/message':
        // There is no model: a person reads it among the messages.
        return {};
      case 'ui/request-display-mode':
        return { mode: 'inline' };
      default:
        throw new Refused(-32601, `the console does not offer ${method}`);
    }
  }

  async #ask(method: string, params: JsonObject): Promise<JsonObject> {
    if (this.#underWay < MOST_AT_ONCE) this.#underWay++;
    else if (this.#waiting.length < MOST_WAITING) await new Promise<void>((done) => this.#waiting.push(done));
    else throw new Refused(-32000, `${MOST_WAITING} requests of this app wait already`);
    try {
      return await askOnce({ ...this.#props.caller, method, params }, this.#ends.gone);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#underWay--;
      else next();
    }
  }

  /** At the aggregate a bare URI may belong to any server; the gateway's script in the app names the app's own (decision 056). */
  #isOwn(uri: unknown): boolean {
    const { caller, tool } = this.#props;
    if (typeof uri !== 'string') return false;
    return caller.server !== null || NAMED_SPACES.some((space) => uri.startsWith(`${space}${tool.server}/`));
  }

  #isForApps(name: unknown): boolean {
    const { tools, caller, tool: own } = this.#props;
    const found = tools.find((tool) =>
      caller.server === null ? tool.exposedName === name : tool.server === caller.server && tool.name === name,
    );
    if (found === undefined || found.server !== own.server) return false;
    return uiOf(found).visibility?.includes('app') ?? true;
  }

  #introduction(params: JsonObject): JsonObject {
    return {
      protocolVersion: params['protocolVersion'],
      hostInfo: { name: 'trunkline-console', version: '1' },
      hostCapabilities: {
        openLinks: {},
        serverTools: {},
        serverResources: {},
        logging: {},
        updateModelContext: { text: {}, structuredContent: {} },
        message: { text: {} },
      },
      hostContext: {
        theme: shownTheme(),
        displayMode: 'inline',
        availableDisplayModes: ['inline'],
        toolInfo: { tool: this.#props.tool.definition },
        containerDimensions: { maxHeight: HEIGHTS.most },
        locale: navigator.language,
        timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        platform: 'web',
      },
    };
  }
}

class Refused extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}
