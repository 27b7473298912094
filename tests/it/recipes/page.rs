//! A recipe as tests read it: its blocks of files and of commands.

use std::fs;
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, Yaml};

/// The folder of the recipes.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recipes")
}

/// The names of all pages but the index.
pub(super) fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "README")
        .collect();
    names.sort();
    names
}

/// A fenced block.
#[derive(Debug)]
pub(super) struct Block {
    /// The word behind the fence.
    language: String,
    /// The nearest heading before it.
    heading: String,
    /// Its lines.
    pub(super) text: String,
}

impl Block {
    /// The name in its first line, where that is a comment: `# seawall.yml`.
    fn title(&self) -> Option<&str> {
        self.text.lines().next()?.strip_prefix("# ")
    }
}

/// A recipe.
#[derive(Debug)]
pub(super) struct Page {
    /// The whole text.
    pub(super) text: String,
    name: String,
    blocks: Vec<Block>,
}

impl Page {
    /// Reads one.
    pub(super) fn read(name: &str) -> Self {
        let text = fs::read_to_string(folder().join(format!("{name}.md"))).unwrap();
        let (mut blocks, mut heading, mut open) = (Vec::new(), String::new(), None::<Block>);
        for line in text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                match open.take() {
                    Some(block) => blocks.push(block),
                    None => {
                        open = Some(Block {
                            language: language.to_owned(),
                            heading: heading.clone(),
                            text: String::new(),
                        });
                    }
                }
            } else if let Some(block) = &mut open {
                block.text += line;
                block.text += "\n";
            } else if line.starts_with('#') {
                heading = line.trim_start_matches(['#', ' ']).to_owned();
            }
        }
        assert!(open.is_none(), "{name}: a fence is open");
        Self { text, name: name.to_owned(), blocks }
    }

    fn blocks_in(&self, language: &str) -> Vec<&Block> {
        self.blocks.iter().filter(|block| block.language == language).collect()
    }

    /// Every file with this name in its first line.
    pub(super) fn files(&self, title: &str) -> Vec<&str> {
        self.blocks.iter().filter(|block| block.title() == Some(title)).map(|block| &*block.text).collect()
    }

    /// The first file with this name in its first line.
    pub(super) fn file(&self, title: &str) -> &str {
        self.files(title).first().unwrap_or_else(|| panic!("{} has no block '# {title}'", self.name))
    }

    /// The first block in a language.
    pub(super) fn block(&self, language: &str) -> &str {
        &self.blocks_in(language).first().unwrap_or_else(|| panic!("{} has no {language}", self.name)).text
    }

    /// A YAML file of the page.
    pub(super) fn yaml(&self, title: &str) -> Yaml<'_> {
        let mut documents = Yaml::load_from_str(self.file(title)).unwrap_or_else(|e| panic!("{title}: {e}"));
        assert_eq!(documents.len(), 1, "{title}");
        documents.remove(0)
    }

    /// The commands of each block below a heading that begins with `heading`.
    pub(super) fn commands(&self, heading: &str) -> Vec<Vec<String>> {
        let below = self.blocks_in("sh").into_iter().filter(|block| block.heading.starts_with(heading));
        below.map(|block| lines(&block.text)).collect()
    }

    /// Every command line of `seawall` in the page's commands, also of those that run in a container or on another machine.
    pub(super) fn seawall_lines(&self) -> Vec<String> {
        self.blocks_in("sh")
            .into_iter()
            .flat_map(|block| lines(&block.text))
            .filter_map(|line| seawall_part(&line))
            .collect()
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split(" #").next().unwrap().trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// What a line runs with `seawall`.
pub(super) fn seawall_part(line: &str) -> Option<String> {
    let line = match line.strip_prefix("sudo -u ") {
        Some(rest) => rest.split_once(' ')?.1,
        None => line,
    };
    if line.starts_with("seawall ") {
        return Some(line.to_owned());
    }
    // `docker compose run --rm seawall ARGUMENTS`: the image's entry point is the program.
    if let Some(arguments) = line.strip_prefix("docker compose run --rm seawall ") {
        return Some(format!("seawall {arguments}"));
    }
    for before in ["docker compose exec seawall ", "kubectl exec shop-0 -c seawall -- ", "fly ssh console -C "] {
        if let Some(rest) = line.strip_prefix(before) {
            return Some(rest.trim_matches('"').to_owned());
        }
    }
    None
}

/// A list of texts in YAML.
pub(super) fn texts(list: &Yaml<'_>) -> Vec<String> {
    list.as_vec().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}
