import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { PAGES } from './pages.ts';
import { closePalette, openPalette } from './palette.tsx';
import { navigate } from './router.ts';
import { nextTheme } from './theme.ts';

const NEXT_KEY_MS = 1_500;
const sheetOpen = signal(false);

/** Listens for the shortcuts of the console. The returned function ends that. */
export function startKeys(): () => void {
  let after: string | null = null;
  const onKey = (event: KeyboardEvent): void => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      openPalette();
      return;
    }
    const { target } = event;
    const types = target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]');
    if (types || event.ctrlKey || event.metaKey || event.altKey) return;
    if (after === 'g') {
      after = null;
      const page = PAGES.find(({ key }) => key === event.key);
      if (page !== undefined) navigate([page.path]);
    } else if (event.key === 'g') {
      after = 'g';
      setTimeout(() => (after = null), NEXT_KEY_MS);
    } else if (event.key === '?') sheetOpen.value = true;
    else if (event.key === 't') nextTheme();
    else if (event.key === '/') {
      const search = document.querySelector<HTMLInputElement>('main input[type=search]');
      if (search === null) return;
      search.focus();
      event.preventDefault();
    }
  };
  addEventListener('keydown', onKey);
  return () => {
    removeEventListener('keydown', onKey);
    // What is open ends with the session, and is not there in the next one.
    sheetOpen.value = false;
    closePalette();
  };
}

/** The sheet of shortcuts, behind `?`. */
export function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (sheetOpen.value) dialog.current?.showModal();
  }, [sheetOpen.value]);
  const rows: readonly (readonly [string, string])[] = [
    ['Ctrl K', 'Search pages, servers and actions'],
    ['/', 'Filter what the page lists'],
    ['↑ ↓ Enter', 'Move in a table, open a row'],
    ['t', 'Change the theme'],
    ...PAGES.flatMap(({ key, title }) => (key === undefined ? [] : [[`g ${key}`, title] as const])),
    ['?', 'This sheet'],
  ];
  return (
    <dialog ref={dialog} class="sheet" aria-labelledby="keys-title" onClose={() => (sheetOpen.value = false)}>
      <h2 id="keys-title">Keyboard</h2>
      <dl>
        {rows.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
