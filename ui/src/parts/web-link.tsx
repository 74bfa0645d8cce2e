import type { ComponentChildren } from 'preact';

/** A link to a page that a server names; text where it is no address of the web, such as `javascript:`. */
export function WebLink({ url, children }: { readonly url: string; readonly children?: ComponentChildren }) {
  if (!/^https?:\/\//i.test(url)) return <code>{url}</code>;
  return (
    <a href={url} target="_blank" rel="noreferrer noopener">
      {children ?? url}
    </a>
  );
}
