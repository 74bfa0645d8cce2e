import { effect, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';

const KEPT_AT = 'trunkline.theme';
const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

export const theme = signal<Theme>(THEMES.find((one) => one === localStorage.getItem(KEPT_AT)) ?? 'system');

/** What the system chooses, where the person leaves it to that. */
export function shownTheme(): 'light' | 'dark' {
  if (theme.value !== 'system') return theme.value;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/** Calls the listener when the shown theme may have become another; the returned function ends that. */
export function onTheme(listener: () => void): () => void {
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', listener);
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  return () => {
    scheme.removeEventListener('change', listener);
    observer.disconnect();
  };
}

export function startTheme(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value;
    localStorage.setItem(KEPT_AT, theme.value);
  });
}

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
}
