import { computed, signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { listTools, restartServer, resumeServer, suspendServer, type Tool } from './api/operations.ts';
import { PAGES } from './pages.ts';
import { shellWord } from './parts/command.tsx';
import { act } from './parts/toasts.tsx';
import { navigate } from './router.ts';
import { putServer, serverList } from './servers.ts';
import { leave } from './session.ts';
import { nextTheme } from './theme.ts';
import './palette.css';

interface Choice {
  readonly id: string;
  readonly text: string;
  readonly kind: string;
  readonly run: () => void;
  /** The command that does the same. */
  readonly command?: string;
  /** It takes something away: it asks once more, in its place. */
  readonly careful?: boolean;
}

const MAX_SHOWN = 12;
const isOpen = signal(false);
const words = signal('');
const at = signal(0);
/** The choice that asks whether it is meant. */
const asked = signal<string | null>(null);
const tools = signal<readonly Tool[]>([]);

export function openPalette(): void {
  words.value = '';
  at.value = 0;
  asked.value = null;
  isOpen.value = true;
  listTools().then(
    (answer) => (tools.value = answer.tools),
    // Pages, servers and actions are found without them.
    () => {},
  );
}

export function closePalette(): void {
  isOpen.value = false;
}

const choices = computed<readonly Choice[]>(() => {
  if (!isOpen.value) return [];
  const pages = PAGES.map(({ path, title }) => ({
    id: `page ${path}`,
    text: title,
    kind: 'Page',
    run: () => navigate([path]),
  }));
  const servers = serverList.value.flatMap(({ name, enabled }) => [
    { id: `server ${name}`, text: name, kind: 'Server', run: () => navigate(['servers', name]) },
    ...(enabled
      ? [change('Restart', name, restartServer), { ...change('Suspend', name, suspendServer), careful: true }]
      : [change('Resume', name, resumeServer)]),
  ]);
  const found = tools.value.map(({ exposedName, server, name }) => ({
    id: `tool ${exposedName}`,
    text: exposedName,
    kind: 'Tool',
    run: () => navigate(['tools', server, name]),
  }));
  const others = [
    { id: 'theme', text: 'Change the theme', kind: 'Action', run: nextTheme },
    { id: 'logout', text: 'Log out', kind: 'Action', run: () => void leave() },
  ];
  return [...pages, ...servers, ...others, ...found];
});

const shown = computed<readonly Choice[]>(() => {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = choices.value.filter(({ text, kind }) => {
    const whole = `${kind} ${text}`.toLowerCase();
    return wanted.every((word) => whole.includes(word));
  });
  return fits.slice(0, MAX_SHOWN);
});

/** Finds pages, servers, tools and actions by a few letters of them. */
export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null);
  // Before the next key: the letters of a fast writer belong into its field.
  useLayoutEffect(() => {
    if (isOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen.value]);
  const choose = (choice: Choice | undefined): void => {
    if (choice === undefined) return;
    if (choice.careful === true && asked.value !== choice.id) {
      asked.value = choice.id;
      return;
    }
    closePalette();
    choice.run();
  };
  const onKey = (event: KeyboardEvent): void => {
    const last = Math.max(0, shown.value.length - 1);
    if (event.key === 'ArrowDown') at.value = Math.min(last, at.value + 1);
    else if (event.key === 'ArrowUp') at.value = Math.max(0, at.value - 1);
    else if (event.key === 'Enter') choose(shown.value[at.value]);
    else return;
    if (event.key !== 'Enter') asked.value = null;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Search or run" onClose={closePalette}>
      <input
        type="search"
        role="combobox"
        list={undefined}
        aria-label="Pages, servers, tools and actions"
        aria-expanded="true"
        aria-controls="choices"
        aria-activedescendant={shown.value.length === 0 ? undefined : `choice-${at.value}`}
        placeholder="Pages, servers, tools, actions"
        value={words.value}
        onInput={(event) => {
          words.value = event.currentTarget.value;
          at.value = 0;
          asked.value = null;
        }}
        onKeyDown={onKey}
      />
      <div id="choices" role="listbox" aria-label="Found">
        {shown.value.map((choice, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field takes the keys of the list
          <div
            key={choice.id}
            id={`choice-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at.value}
            onClick={() => choose(choice)}
          >
            <span>{asked.value === choice.id ? `Confirm: ${choice.text}` : choice.text}</span>{' '}
            <small>{choice.command === undefined ? choice.kind : <code>{choice.command}</code>}</small>
          </div>
        ))}
      </div>
      {shown.value.length === 0 ? <p>No results.</p> : null}
    </dialog>
  );
}

function change(verb: string, name: string, operation: typeof restartServer): Choice {
  const text = `${verb} ${name}`;
  const done = async (): Promise<void> => {
    const server = await act(`${text}: done`, () => operation({ name }));
    if (server !== null) putServer(server);
  };
  const command = `trunkline ${verb.toLowerCase()} ${shellWord(name)}`;
  return { id: text, text, kind: 'Action', command, run: () => void done() };
}
