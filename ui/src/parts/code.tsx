import type { ComponentChildren } from 'preact';

/** Text as it is, in a box that scrolls. `form`: which of several this is, for tests. */
export function Code({ children, form }: { readonly children: ComponentChildren; readonly form?: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard
    <pre class="code" tabIndex={0} data-form={form}>
      {children}
    </pre>
  );
}
