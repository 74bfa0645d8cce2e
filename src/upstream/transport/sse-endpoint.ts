/**
 * The URL of an `endpoint` event (2024-11-05, basic/transports), relative or absolute; or, in words, what is wrong
 * with it. It must be of the stream's own origin: a server must not be able to make us send the declared credentials
 * elsewhere.
 */
export function parseEndpoint(text: string, stream: URL): URL | string {
  if (text === '' || !URL.canParse(text, stream.href)) return 'the endpoint event names no URL';
  const url = new URL(text, stream);
  if (url.origin !== stream.origin) return `the endpoint event names another origin (${url.origin}) than the stream's`;
  if (url.username !== '' || url.password !== '') return 'the endpoint event names a URL with credentials';
  return url;
}
