import { described, flag, type Infer, list, named, nullable, object, oneOf, text } from './schema.ts';

const CLIENT_LINK = named(
  'ClientLink',
  object({
    id: text,
    title: text,
    installed: described(flag, 'There are signs of it on the machine of the gateway.'),
    file: described(text, 'Where it keeps its servers, on the machine of the gateway.'),
    syntax: oneOf(['json', 'toml', 'yaml']),
    command: described(
      nullable(text),
      'The command by which the client itself takes a server; null where it has none.',
    ),
    content: described(
      text,
      'The file as `trunkline link` writes it where there is none; in others it adds the entry.',
    ),
    link: described(text, 'The command that writes it.'),
  }),
);
export type ClientLink = Infer<typeof CLIENT_LINK>;

export const CLIENT_LINKS = object({
  url: text,
  key: described(
    nullable(
      object({
        agent: text,
        placeholder: described(text, 'In place of the key in files.'),
        shell: described(text, 'What a shell puts in its place.'),
        show: described(text, 'The command that prints the key.'),
      }),
    ),
    'The agent as which clients call; null where they need no key.',
  ),
  agents: list(text),
  clients: list(CLIENT_LINK),
});
export type ClientLinks = Infer<typeof CLIENT_LINKS>;
