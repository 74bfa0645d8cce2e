import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { buildConsole } from '../../scripts/build-console.ts';
import type { RunningGateway } from '../support/running-gateway.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const BUILT = join(ROOT, 'dist/ui');
const SCREENSHOTS = join(ROOT, 'docs/screenshots');
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const ARGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'];
const THEMES = ['light', 'dark'] as const;
const WIDTHS = [1280, 375] as const;
const HEIGHT = 800;

interface AxeFinding {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** An event of the browser's trace; `tdur` is CPU time in microseconds. */
interface TraceEvent {
  readonly name: string;
  readonly tid: number;
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/**
 * A real Chromium that is logged in at the console of a real gateway. Opening it builds the console, unless the run of the
 * whole suite has built it. `close` fails when the page has violated its Content-Security-Policy or thrown an error.
 */
export class ConsoleBrowser {
  readonly page: Page;
  /** The messages that third-party apps may write to the console of the browser. */
  tolerated: RegExp | null = null;
  readonly #browser: Browser;
  readonly #problems: string[] = [];

  private constructor(browser: Browser, page: Page) {
    this.#browser = browser;
    this.page = page;
    page.on('pageerror', (error) => this.#problems.push(`thrown: ${error.message}`));
    page.on('console', (message) => {
      // The browser itself logs this for every refused request.
      if (message.type() !== 'error' || message.text().startsWith('Failed to load resource')) return;
      if (this.tolerated?.test(message.text()) !== true) this.#problems.push(message.text());
    });
  }

  /** `path`: the hash of the page to begin with, such as `#/servers/memory`. */
  static async open(gateway: RunningGateway, path = '#/'): Promise<ConsoleBrowser> {
    const { url } = await gateway.control<{ url: string }>('/api/v1/console-links', 'POST', '{}');
    return ConsoleBrowser.openLink(url, path);
  }

  /** `url`: a link that logs in. */
  static async openLink(url: string, path = '#/'): Promise<ConsoleBrowser> {
    if (process.env['TRUNKLINE_BUILT'] !== '1') await buildConsole(BUILT, false);
    const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ARGS });
    const context = await browser.newContext({ viewport: { width: WIDTHS[0], height: HEIGHT } });
    const page = await context.newPage();
    const opened = new ConsoleBrowser(browser, page);
    try {
      await page.goto(url);
      await page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
      await opened.visit(path);
      return opened;
    } catch (error) {
      await browser.close();
      throw error;
    }
  }

  /** Goes to a view of the page that is open, without a reload. */
  async visit(path: string): Promise<void> {
    await this.page.evaluate((hash) => {
      location.hash = hash;
    }, path);
  }

  /** The longest task of the page while `work` runs, in ms of CPU time: without the time of other work of the machine. */
  async longestTask(work: () => Promise<void>): Promise<number> {
    await this.#browser.startTracing(this.page, { categories: ['disabled-by-default-devtools.timeline'] });
    let trace: Buffer;
    try {
      await work();
    } finally {
      trace = await this.#browser.stopTracing();
    }
    const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: readonly TraceEvent[] };
    const isMain = new Set(
      traceEvents.flatMap(({ name, args, tid }) =>
        name === 'thread_name' && args?.name === 'CrRendererMain' ? [tid] : [],
      ),
    );
    const tasks = traceEvents.filter(({ name, tid }) => name === 'RunTask' && isMain.has(tid));
    assert.ok(tasks.length > 0, 'the page ran no task');
    return Math.round(Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1_000);
  }

  /** Fails with axe's findings that are serious or critical, in both themes at both widths. */
  async assertAccessible(): Promise<void> {
    // axe is a tool of the test: it runs outside the policy of the page.
    const session = await this.page.context().newCDPSession(this.page);
    await session.send('Runtime.evaluate', { expression: AXE });
    await this.#atWidths(async (width) => {
      for (const theme of THEMES) {
        await this.#theme(theme);
        const { result } = await session.send('Runtime.evaluate', {
          expression: 'axe.run().then(({ violations }) => JSON.stringify(violations))',
          awaitPromise: true,
        });
        const findings = (JSON.parse(result.value as string) as readonly AxeFinding[]).filter(
          ({ impact }) => impact === 'serious' || impact === 'critical',
        );
        assert.deepEqual(
          findings.map(({ id, nodes }) => `${width} ${theme} ${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`),
          [],
        );
      }
    });
    await session.detach();
  }

  /**
   * Dismisses the toasts and asserts that nothing is wider than a phone; with TRUNKLINE_SCREENSHOTS=1 writes both themes at
   * both widths to docs/screenshots, one set for each name.
   */
  async screenshots(name: string): Promise<void> {
    const writes = process.env['TRUNKLINE_SCREENSHOTS'] === '1';
    const dismiss = this.page.locator('.toast').getByRole('button', { name: 'Dismiss' });
    for (const button of await dismiss.elementHandles()) await button.evaluate((one) => (one as HTMLElement).click());
    // An element under the pointer looks different.
    await this.page.mouse.move(0, 0);
    await this.#atWidths(async (width) => {
      const wide = await this.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${name} is ${wide} px wider than a screen of ${width} px`);
      for (const theme of writes ? THEMES : []) {
        await this.#theme(theme);
        mkdirSync(SCREENSHOTS, { recursive: true });
        const image = await this.page.screenshot({ animations: 'disabled' });
        writeFileSync(join(SCREENSHOTS, `${name}-${theme}-${width}.png`), image);
      }
    });
  }

  async close(): Promise<void> {
    await this.#browser.close();
    assert.deepEqual(this.#problems, [], 'errors in the console of the browser');
  }

  /** Runs `work` at each width, and restores the widest at the end. */
  async #atWidths(work: (width: number) => Promise<void>): Promise<void> {
    try {
      for (const width of WIDTHS) {
        await this.page.setViewportSize({ width, height: HEIGHT });
        // Elements that depend on the width are drawn again in the next frame.
        await this.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        await work(width);
      }
    } finally {
      await this.page.setViewportSize({ width: WIDTHS[0], height: HEIGHT });
    }
  }

  async #theme(theme: string): Promise<void> {
    await this.page.evaluate((value) => {
      document.documentElement.dataset['theme'] = value;
    }, theme);
  }
}
