import type { ComponentChildren } from 'preact';

/** A browser takes seconds to show more. */
const MOST_CHARS = 1_000_000;

/** Text as it is, in a box that scrolls. `form`: which of several this is, for tests. */
export function Code({ children, form }: { readonly children: ComponentChildren; readonly form?: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard
    <pre class="code" tabIndex={0} data-form={form}>
      {typeof children === 'string' && children.length > MOST_CHARS
        ? `${children.slice(0, MOST_CHARS)}\n… and ${children.length - MOST_CHARS} more characters`
        : children}
    </pre>
  );
}

/** JSON in a text is easier to read with line breaks. */
export function pretty(text: string): string {
  if (!/^\s*[{[]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
