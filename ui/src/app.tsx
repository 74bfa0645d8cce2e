import { signal, useSignal } from '@preact/signals';
import { type ComponentType, Fragment } from 'preact';
import { useEffect } from 'preact/hooks';
import { csrf } from './api/request.ts';
import { Keys, startKeys } from './keys.tsx';
import { liveState, refusal } from './live.ts';
import { Login } from './login.tsx';
import { PAGES, type Page, type PageGroup } from './pages.ts';
import { openPalette, Palette } from './palette.tsx';
import { Boundary } from './parts/boundary.tsx';
import { Command } from './parts/command.tsx';
import { Empty, Failure, Loading } from './parts/notes.tsx';
import { clock } from './parts/reading.ts';
import { Status, type Tone } from './parts/status.tsx';
import { Toasts } from './parts/toasts.tsx';
import { href, route } from './router.ts';
import { gateway } from './servers.ts';
import { leave } from './session.ts';
import { nextTheme, theme } from './theme.ts';

const GROUPS: readonly PageGroup[] = ['Operate', 'Guard', 'System'];
const LIVE: Readonly<Record<typeof liveState.value, readonly [Tone, string]>> = {
  connecting: ['busy', 'Connecting'],
  open: ['good', 'Live'],
  lost: ['bad', 'Connection lost'],
  resting: ['rest', 'Paused'],
};
/** A shorter loss shows in the bar only. */
const AWAY_MS = 2_000;
const menuOpen = signal(false);
const loaded = signal<ReadonlyMap<string, ComponentType>>(new Map());
const loadError = signal<Error | null>(null);

export function App() {
  return (
    <>
      {csrf.value === null ? <Login /> : <Shell />}
      <Toasts />
    </>
  );
}

function Shell() {
  useEffect(startKeys, []);
  const page = PAGES.find(({ path }) => path === route.value.page);
  useEffect(() => {
    document.title = `${page?.title ?? 'Not found'} · Trunkline`;
    menuOpen.value = false;
    if (page !== undefined) void load(page);
  }, [page]);
  return (
    <div class={`shell${menuOpen.value ? ' menu-open' : ''}`}>
      <a class="skip" href="#content" onClick={skip}>
        Skip to content
      </a>
      <header class="bar">
        <button
          type="button"
          class="plain menu-button"
          aria-expanded={menuOpen.value}
          aria-controls="navigation"
          onClick={() => (menuOpen.value = !menuOpen.value)}
        >
          ☰<span class="hidden">Menu</span>
        </button>
        <a class="brand" href="#/">
          Trunkline <small>{gateway.value?.version}</small>
        </a>
        <span class="grow" />
        <Status tone={LIVE[liveState.value][0]} text={LIVE[liveState.value][1]} />
        <button type="button" class="search-button" onClick={openPalette}>
          <span>Search or run</span> <kbd>Ctrl K</kbd>
        </button>
        <button type="button" class="plain" title={`Theme: ${theme.value}`} onClick={nextTheme}>
          <span aria-hidden="true">{theme.value === 'dark' ? '☾' : theme.value === 'light' ? '☀' : '◐'}</span>
          <span class="hidden">Theme: {theme.value}</span>
        </button>
        <button type="button" class="plain" onClick={() => void leave()}>
          Log out
        </button>
      </header>
      <nav id="navigation" aria-label="Pages">
        {GROUPS.map((group) => (
          <Group key={group} group={group} />
        ))}
      </nav>
      <main id="content" tabIndex={-1}>
        <Away />
        <Content page={page} />
      </main>
      <Palette />
      <Keys />
    </div>
  );
}

/** That what is shown is old, and how it becomes current. */
function Away() {
  const since = useSignal<number | null>(null);
  const isLost = liveState.value === 'lost';
  useEffect(() => {
    if (!isLost) return;
    const at = Date.now();
    const timer = setTimeout(() => (since.value = at), AWAY_MS);
    return () => {
      clearTimeout(timer);
      since.value = null;
    };
  }, [isLost]);
  if (since.value === null) return null;
  const refused = refusal.value;
  return (
    <div class="note" role="alert">
      <Status tone="bad" text={refused === null ? 'The gateway does not answer' : 'No changes arrive'} />
      <p>
        What is shown is from {clock(since.value)} and may be old.{' '}
        {refused === null ? (
          <>
            If the gateway was stopped, start it: <Command text="trunkline" />
          </>
        ) : (
          `The stream of changes was refused: ${refused.message}`
        )}
      </p>
    </div>
  );
}

function Group({ group }: { group: PageGroup }) {
  const pages = PAGES.filter((page) => page.group === group);
  if (pages.length === 0) return null;
  return (
    <Fragment>
      <h2>{group}</h2>
      <ul>
        {pages.map(({ path, title }) => (
          <li key={path}>
            <a href={href([path])} {...(route.value.page === path ? { 'aria-current': 'page' } : {})}>
              {title}
            </a>
          </li>
        ))}
      </ul>
    </Fragment>
  );
}

function Content({ page }: { page: Page | undefined }) {
  if (page === undefined) {
    return (
      <Empty title="There is no such page">
        <p>
          The link may belong to another version of the console. <a href="#/">Overview</a>
        </p>
      </Empty>
    );
  }
  const View = loaded.value.get(page.path);
  if (View !== undefined) {
    return (
      <Boundary key={page.path} what={`${page.title} could not be shown`} of={route.value}>
        <View />
      </Boundary>
    );
  }
  if (loadError.value !== null) {
    return (
      <Failure what={`${page.title} could not be loaded`} error={loadError.value} again={() => location.reload()} />
    );
  }
  return <Loading what={page.title} />;
}

async function load({ path, load: get }: Page): Promise<void> {
  if (loaded.value.has(path)) return;
  loadError.value = null;
  try {
    const { default: view } = await get();
    loaded.value = new Map(loaded.value).set(path, view);
  } catch (error) {
    loadError.value = error as Error;
  }
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('content')?.focus();
}
