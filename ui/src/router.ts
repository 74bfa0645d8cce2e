import { computed, signal } from '@preact/signals';

/** Where the page is: `#/servers/github?tab=log` is page `servers`, rest `['github']`. */
interface Route {
  readonly page: string;
  readonly rest: readonly string[];
  readonly query: URLSearchParams;
}

const hash = signal(location.hash);
addEventListener('hashchange', () => {
  hash.value = location.hash;
});

export const route = computed<Route>(() => {
  const [path = '', search = ''] = hash.value.replace(/^#\/?/, '').split('?');
  const [page = '', ...rest] = path.split('/').map(decoded);
  return { page, rest, query: new URLSearchParams(search) };
});

/** The address of a view, for links. */
export function href(path: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${search === '' ? '' : `?${search}`}`;
}

export function navigate(path: readonly string[], query: Readonly<Record<string, string>> = {}): void {
  location.hash = href(path, query);
}

/** Changes the query of the view and makes no entry in the history, as filters do while they are typed. */
export function setQuery(changes: Readonly<Record<string, string>>): void {
  const { page, rest, query } = route.value;
  replace([page, ...rest], { ...Object.fromEntries(query), ...changes });
}

/** Takes the place of the present address in the history. */
export function replace(path: readonly string[], query: Readonly<Record<string, string>> = {}): void {
  history.replaceState(null, '', href(path, query));
  hash.value = location.hash;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
