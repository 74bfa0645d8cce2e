import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AppHost } from './app-host.ts';

const INSTALL_MS = 240_000;
const SHOWN_MS = 20_000;

/** One of the official app servers, with what its app shows and requests without access to other machines. */
export interface OfficialApp {
  /** `@modelcontextprotocol/server-{name}`. */
  readonly name: string;
  readonly version: string;
  readonly tool: string;
  /** `folder` is where the packages are installed. */
  readonly input?: (folder: string) => object;
  readonly args?: (folder: string) => readonly string[];
  /** Matches an element that is there once the result is shown. */
  readonly shows: string;
  /** The button that makes the app call. */
  readonly press?: string;
  /** The tool or resource that the app requests, by its own name. */
  readonly asks?: string;
  /** What cannot be tried here, because it needs another machine. */
  readonly lacks?: string;
  /** The error of an app that does not connect to its host. */
  readonly refuses?: string;
  /** The error that its server returns in place of a result. */
  readonly expectedError?: string;
}

const BASIC = {
  version: '2.0.3',
  tool: 'get-time',
  shows: 'text=/Server Time/',
  press: 'Get Server Time',
  asks: 'get-time',
};
const at = (name: string, tool: string, shows: string, more: Partial<OfficialApp> = {}): OfficialApp => ({
  name,
  version: '2.0.3',
  tool,
  shows,
  ...more,
});
const SCALE = 'X:1\nT:Scale\nM:4/4\nL:1/4\nK:C\nCDEF|GABc|';
const pdfOf = (folder: string): string => join(folder, 'one-page.pdf');

/** All official app servers on npm. The first six have one tool name and one address. */
export const OFFICIAL_APPS: readonly OfficialApp[] = [
  ...['react', 'vanillajs', 'vue', 'svelte', 'preact', 'solid'].map((kind) => ({ name: `basic-${kind}`, ...BASIC })),
  at('budget-allocator', 'get-budget-data', 'text=/Allocated: \\$100,000/'),
  at('cohort-heatmap', 'get-cohort-data', 'text=M11', { asks: 'get-cohort-data' }),
  at('customer-segmentation', 'get-customer-data', 'canvas', { asks: 'get-customer-data' }),
  at('debug', 'debug-tool', 'text=/ontoolresult:/', { asks: 'debug-log' }),
  at('map', 'show-map', 'text=/Failed to load CesiumJS/', {
    lacks: 'CesiumJS, from its CDN: the app does not start without',
    refuses: 'Failed to load CesiumJS from CDN',
  }),
  at('pdf', 'display_pdf', 'text=/Behind one gate/', {
    version: '2.0.4',
    input: (folder) => ({ url: pdfOf(folder) }),
    args: (folder) => [pdfOf(folder)],
    asks: 'read_pdf_bytes',
  }),
  at('scenario-modeler', 'get-scenario-data', 'text=/Starting MRR/'),
  at('shadertoy', 'render-shadertoy', 'canvas'),
  at('sheet-music', 'play-sheet-music', 'svg >> nth=0', { input: () => ({ abcNotation: SCALE }) }),
  at('system-monitor', 'get-system-info', 'text=/Hostname/i >> nth=0', { asks: 'poll-system-stats' }),
  at('threejs', 'show_threejs_scene', 'canvas'),
  at('transcript', 'transcribe', 'text=/Your speech/', {
    lacks: 'speech recognition, a service of the browser’s maker',
  }),
  at('video-resource', 'play_video', 'text=/Error loading video/', {
    input: () => ({ videoId: 'bunny-1mb' }),
    lacks: 'the video, which the server fetches from its CDN',
    asks: 'videos://bunny-1mb',
    expectedError: 'fetch failed',
  }),
  at('wiki-explorer', 'get-first-degree-links', 'canvas', {
    input: () => ({ url: 'https://en.wikipedia.org/wiki/Graph_theory' }),
    lacks: 'the links, which the server fetches from Wikipedia; further ones are asked for from there',
  }),
];

const PDF = [
  '%PDF-1.4',
  '1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj',
  '2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj',
  '3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Resources<</Font<</F1 4 0 R>>>>/Contents 5 0 R>>endobj',
  '4 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj',
  '5 0 obj<</Length 45>>stream\nBT /F1 18 Tf 20 40 Td (Behind one gate) Tj ET\nendstream endobj',
  'trailer<</Root 1 0 R>>\n',
].join('\n');

/** Packages of a temporary folder. */
export interface InstalledApps {
  readonly definitions: Readonly<Record<string, { readonly command: string; readonly args: readonly string[] }>>;
  input(app: OfficialApp): object;
  dispose(): void;
}

/** Installs the servers with npm. Returns the reason if that fails. */
export async function installApps(apps: readonly OfficialApp[]): Promise<InstalledApps | string> {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-apps-'));
  const dispose = () => rmSync(folder, { recursive: true, force: true });
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  writeFileSync(pdfOf(folder), PDF);
  const packages = apps.map(({ name, version }) => `@modelcontextprotocol/server-${name}@${version}`);
  const failed = await npmInstall(folder, packages);
  if (failed !== null) {
    dispose();
    return failed;
  }
  const definition = ({ name, args }: OfficialApp) => ({
    command: process.execPath,
    args: [
      join(folder, `node_modules/@modelcontextprotocol/server-${name}/dist/index.js`),
      ...(args?.(folder) ?? []),
      '--stdio',
    ],
  });
  return {
    definitions: Object.fromEntries(apps.map((app) => [app.name, definition(app)])),
    input: (app) => app.input?.(folder) ?? {},
    dispose,
  };
}

/** Returns null on success, else the reason. */
async function npmInstall(cwd: string, packages: readonly string[]): Promise<string | null> {
  const args = [
    'install',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--no-package-lock',
    '--fetch-retries=0',
    ...packages,
  ];
  const child = spawn('npm', args, {
    cwd,
    stdio: ['ignore', 'ignore', 'pipe'],
    signal: AbortSignal.timeout(INSTALL_MS),
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const code = await new Promise<number | null | string>((done) => {
    child.once('exit', done);
    child.once('error', (error) => done(String(error)));
  });
  return code === 0 ? null : `npm install ended with ${code}: ${said.slice(-500)}`;
}

/** Opens the apps one after another and leaves all open; then each must show its result, and get its request answered. */
export async function problemsOf(
  host: AppHost,
  apps: readonly OfficialApp[],
  installed: InstalledApps,
): Promise<string[]> {
  const problems: string[] = [];
  for (const app of apps) {
    const opened = host.open(exposedTool(app), installed.input(app)).then(
      () => null,
      (error: unknown) => String(error),
    );
    const limit = new Promise<string>((done) => {
      setTimeout(() => done('not initialised in time'), app.refuses === undefined ? SHOWN_MS : 1_000).unref();
    });
    const failed = await Promise.race([opened, limit]);
    if (failed !== null && app.refuses === undefined) problems.push(`${app.name}: ${failed}`);
  }
  for (const app of apps) {
    try {
      const found = await problemOf(host, app);
      if (found !== null) problems.push(`${app.name}: ${found}`);
    } catch (error) {
      problems.push(`${app.name}: ${error}`);
    }
  }
  return [...problems, ...host.errors];
}

async function problemOf(host: AppHost, app: OfficialApp): Promise<string | null> {
  const tool = exposedTool(app);
  // Browsers draw nothing in frames that are out of sight.
  await host.page.locator(`iframe[name="${tool}"]`).scrollIntoViewIfNeeded();
  const frame = host.frame(tool);
  await frame.locator(app.shows).first().waitFor({ timeout: SHOWN_MS });
  if (app.refuses !== undefined) return null;
  const { result, initialized } = await host.app(tool);
  if (!initialized || result === undefined || result.isError === true) return `no result: ${JSON.stringify(result)}`;
  if (app.press !== undefined) await frame.getByRole('button', { name: app.press }).click();
  if (app.asks === undefined) return null;
  const wanted = app.asks.includes('://') ? `trunkline://${app.name}/${app.asks}` : `${app.name}__${app.asks}`;
  const end = performance.now() + SHOWN_MS;
  for (;;) {
    const { requests } = await host.app(tool);
    const asked = requests.find(({ params }) => params['name'] === wanted || params['uri'] === wanted);
    if (app.expectedError !== undefined && asked?.error?.includes(app.expectedError) === true) return null;
    if (asked?.result !== undefined && asked.result.isError !== true) return null;
    if (performance.now() > end) return `${wanted} came to nothing: ${JSON.stringify(requests).slice(0, 1000)}`;
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** The names of these tools are not shortened, so that the exposed name is known beforehand. */
function exposedTool({ name, tool }: OfficialApp): string {
  return `${name}__${tool}`;
}
